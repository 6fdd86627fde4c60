package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

// While its servers are away the worker lives, is not ready and shows its metrics; the end of its context ends it.
func TestRunWithoutServers(t *testing.T) {
	t.Parallel()
	const nowhere = "127.0.0.1:1"
	cfg := duetime.DefaultConfig()
	cfg.MySQL.DSN = "root@tcp(" + nowhere + ")/duetime"
	cfg.Redis.Addrs, cfg.Kafka.Brokers, cfg.ZooKeeper.Servers = []string{nowhere}, []string{nowhere}, []string{nowhere}
	admin, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	pipelinetest.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, cfg, admin) }()

	url := "http://" + admin.Addr().String()
	wantPage(t, url+"/livez", http.StatusOK, "")
	wantPage(t, url+"/readyz", http.StatusServiceUnavailable, "not ready")
	pipelinetest.Await(t, "the worker's metrics", func() bool {
		_, text := get(t, url+"/metrics")
		return strings.Contains(text, `duetime_worker_last_success_timestamp_seconds{namespace="duetime"}`) && strings.Contains(text, "go_goroutines")
	})
	stop()
	pipelinetest.Must(t, <-ended)
}

func TestPages(t *testing.T) {
	t.Parallel()
	hung := errors.New("no pass for a minute")
	for name, c := range map[string]struct {
		alive       error
		ready       bool
		live, wants int
	}{
		"works": {nil, true, http.StatusOK, http.StatusOK},
		"waits": {nil, false, http.StatusOK, http.StatusServiceUnavailable},
		"hangs": {hung, true, http.StatusServiceUnavailable, http.StatusOK},
	} {
		server := httptest.NewServer(pages(func() error { return c.alive }, func() bool { return c.ready }, prometheus.NewRegistry()))
		t.Cleanup(server.Close)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantPage(t, server.URL+"/livez", c.live, "")
			wantPage(t, server.URL+"/readyz", c.wants, "")
		})
	}
}

func TestStartNeedsAnAdminAddress(t *testing.T) {
	t.Parallel()
	if err := start(t.Context(), []string{"--config", "../../configs/duetime.yaml"}); err == nil || !strings.Contains(err.Error(), "worker.admin") {
		t.Errorf("got %v, want an error that names worker.admin", err)
	}
}

func wantPage(t *testing.T, url string, status int, says string) {
	t.Helper()
	if got, text := get(t, url); got != status || !strings.Contains(text, says) {
		t.Errorf("%s answers %d %q, want %d %q", url, got, text, status, says)
	}
}

func get(t *testing.T, url string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	pipelinetest.Must(t, err)
	req.Close = true // no idle connection is left when goroutines are counted
	res, err := http.DefaultClient.Do(req)
	pipelinetest.Must(t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	pipelinetest.Must(t, err)
	return res.StatusCode, string(body)
}
