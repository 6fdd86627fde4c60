package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// TestShopByHTTP runs the shop of examples/http: it schedules through the API, with a token of its own, and a worker pushes
// what is due to it. The shop's answers about order 4 are lost: its task can be cancelled after the order has expired.
func TestShopByHTTP(t *testing.T) {
	t.Parallel()
	p := pipelinetest.Deployment{
		DSN: pipelinetest.MySQL(t).NewSchema(t), Redis: pipelinetest.Redis(t).Addr(), ZooKeeper: pipelinetest.ZooKeeper(t).Addr(),
		Kafka: pipelinetest.Kafka(t).Addr(), Namespace: pipelinetest.Namespace(t), Config: filepath.Join(t.TempDir(), "duetime.yaml"),
		Rules: []string{"DUETIME_KAFKA__PARTITIONS=4", "SHOP_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
	}
	configure := func(endpoint string) {
		pipelinetest.Must(t, os.WriteFile(p.Config, fmt.Appendf(nil, `
queues: [default, push]
api:
  tokens: '[{name: shop, role: schedule, token: shop-0123456789abcdef, owners: ["order-*"], kinds: [shop.order]}]'
deliver:
  allow: [127.0.0.1/32]
  kinds:
    shop.order: {url: "http://%s/hook", queue: push, secrets_env: SHOP_SECRET}
`, endpoint), 0o600))
	}
	configure("127.0.0.1:1")
	p.Migrate(t)
	api := p.Ready(t, "api")

	script, err := filepath.Abs("../../../examples/http/shop.py")
	pipelinetest.Must(t, err)
	shop := pipelinetest.Run(t, "/usr/bin/python3", []string{
		"SHOP_API=" + api.URL(t, "api"), "SHOP_TOKEN=shop-0123456789abcdef", "SHOP_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"SHOP_LISTEN=127.0.0.1:0", "SHOP_DB=" + filepath.Join(t.TempDir(), "shop.db"),
	}, "-B", script, "play")
	_, endpoint, _ := strings.Cut(shop.WaitLine(t, "listening on "), "listening on ")
	endpoint = losesAnswers(t, endpoint, 4)
	configure(endpoint)
	w := p.Ready(t, "worker")
	if code := shop.Wait(t, time.Minute); code != 0 {
		t.Fatalf("the shop ends with exit code %d: %s", code, strings.Join(shop.Lines(), "\n"))
	}
	want := "order 3 is paid too late: ALREADY_DONE\norder 4 is paid too late: ORDER_EXPIRED\n" +
		"order 1: paid\norder 2: expired\norder 3: expired\norder 4: expired\n"
	if got := shop.Stdout(); got != want {
		t.Errorf("the shop says\n%s\nwant\n%s", got, want)
	}
	if n := w.Metric(t, `duetime_pushes_total{endpoint="`+endpoint+`",outcome="done"}`); n != 2 {
		t.Errorf("%v tasks were done by a push, want 2", n)
	}
}

// losesAnswers returns the address of a proxy in front of the endpoint. The endpoint gets every request; its answers about
// one order never arrive.
func losesAnswers(t *testing.T, endpoint string, order int) string {
	t.Helper()
	through := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: endpoint})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var payload struct {
			Order int `json:"order"`
		}
		if err = errors.Join(err, json.Unmarshal(body, &payload)); err != nil {
			t.Errorf("a push: %v", err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if payload.Order != order {
			through.ServeHTTP(w, r)
			return
		}
		through.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler) // cuts the connection
	}))
	t.Cleanup(proxy.Close)
	return proxy.Listener.Addr().String()
}
