package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/process"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/migrations"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

// TestStopLeavesNothing runs the process in this one and stops it while puts to an index and messages to a Kafka, present
// or absent, are in flight: TestMain finds what it leaves behind. It uses this process's signals, command line and log,
// so its cases are not parallel.
func TestStopLeavesNothing(t *testing.T) {
	nobody := pipelinetest.Proxy(t, "127.0.0.1:1")
	nobody.Refuse()
	for name, servers := range map[string][2]string{
		"all there":         {pipelinetest.Redis(t).Addr(), pipelinetest.Kafka(t).Addr()},
		"Redis away":        {nobody.Addr(), pipelinetest.Kafka(t).Addr()},
		"Redis, Kafka away": {nobody.Addr(), nobody.Addr()},
	} {
		t.Run(name, func(t *testing.T) {
			os.Args = []string{"game", "--config", configured(t, servers[0], servers[1])}
			url, ended := begin(t)
			for _, path := range []string{"/v1/pets", "/v1/pets/1/feed", "/v1/pets/1/speedup"} {
				body := ""
				if path == "/v1/pets" {
					body = `{"owner":"ann","name":"tom"}`
				}
				res, err := http.Post(url+path, "application/json", strings.NewReader(body))
				pipelinetest.Must(t, err)
				pipelinetest.Must(t, res.Body.Close())
				if res.StatusCode >= http.StatusBadRequest {
					t.Errorf("%s: status %d", path, res.StatusCode)
				}
			}
			http.DefaultClient.CloseIdleConnections()
			pipelinetest.Must(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
			select {
			case code := <-ended:
				if code != 0 {
					t.Errorf("exit code %d", code)
				}
			case <-time.After(time.Minute):
				t.Fatal("not ended within a minute")
			}
		})
	}
}

func configured(t *testing.T, redis, kafka string) string {
	t.Helper()
	dsn, namespace := pipelinetest.MySQL(t).NewSchema(t), pipelinetest.Namespace(t)
	s, err := store.Open(dsn, store.Options{})
	pipelinetest.Must(t, err)
	defer func() { pipelinetest.Must(t, s.Close()) }()
	pipelinetest.Must(t, s.Migrate(t.Context(), migrations.Files, namespace, 4))
	path := filepath.Join(t.TempDir(), "duetime.yaml")
	text := fmt.Sprintf("namespace: %s\nshards: 4\nmysql: {dsn: %q}\nredis: {addrs: [%q]}\nkafka: {brokers: [%q]}\ngame: {listen: 0, admin: 0}\n",
		namespace, dsn, redis, kafka)
	pipelinetest.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// begin starts the process and returns the address of the game once it is ready.
func begin(t *testing.T) (url string, ended <-chan int) {
	t.Helper()
	read, write, err := os.Pipe()
	pipelinetest.Must(t, err)
	stderr := os.Stderr
	os.Stderr = write
	code, ready := make(chan int, 1), make(chan string, 1)
	go func() { code <- process.Main("game", config.DefaultPath, run) }()
	said := make(chan struct{})
	go func() {
		defer close(said)
		serves := ""
		for lines := bufio.NewScanner(read); lines.Scan(); {
			var line struct{ Msg, What, Addr string }
			_ = json.Unmarshal(lines.Bytes(), &line)
			_, _ = fmt.Fprintln(t.Output(), lines.Text())
			switch {
			case line.What == "game":
				serves = line.Addr
			case line.Msg == "ready":
				ready <- "http://" + serves
			}
		}
	}()
	t.Cleanup(func() {
		os.Stderr = stderr
		_ = write.Close()
		<-said
		_ = read.Close()
	})
	select {
	case url = <-ready:
	case <-time.After(time.Minute):
		t.Fatal("not ready within a minute")
	}
	return url, code
}
