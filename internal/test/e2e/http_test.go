package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// TestShopByHTTP runs the shop of examples/http: it schedules through the API, with a token of its own, and a worker pushes
// what is due to it.
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
	configure(endpoint)
	w := p.Ready(t, "worker")
	if code := shop.Wait(t, time.Minute); code != 0 {
		t.Fatalf("the shop ends with exit code %d: %s", code, strings.Join(shop.Lines(), "\n"))
	}
	want := "order 3 is paid too late: ALREADY_DONE\norder 1: paid\norder 2: expired\norder 3: expired\norder 4: expired\n"
	if got := shop.Stdout(); got != want {
		t.Errorf("the shop says\n%s\nwant\n%s", got, want)
	}
	if n := w.Metric(t, `duetime_pushes_total{endpoint="`+endpoint+`",outcome="done"}`); n != 3 {
		t.Errorf("%v tasks were pushed, want 3", n)
	}
}
