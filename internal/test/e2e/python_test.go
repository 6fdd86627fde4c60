package e2e_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// TestShopInPython runs the shop of examples/python beside event, daemon and a worker in Go: every task has one effect, by the
// workers of its queue, and the index follows what SQL has changed. The worker in Go also runs tasks that SQL has scheduled.
func TestShopInPython(t *testing.T) {
	t.Parallel()
	p := pipelinetest.SharedDeployment(t)
	p.Config = filepath.Join(t.TempDir(), "duetime.yaml")
	pipelinetest.Must(t, os.WriteFile(p.Config, []byte("queues: [default, shop]\n"), 0o600))
	p.Migrate(t) // the topic of the queue
	p.Rules = append(p.Rules, "DUETIME_DAEMON__INTERVAL=200ms")
	p.Ready(t, "event")
	p.Ready(t, "daemon")
	client := newService(t, p, "shop")
	client.exec(t, "CREATE TABLE mails (task BINARY(16) NOT NULL)")
	mail := task.NewKind[int]("e2e.mail")
	mux := worker.NewMux()
	worker.Handle(mux, mail, func(ctx context.Context, tx *worker.Tx, task worker.Task[int]) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO mails VALUES (?)", task.ID[:])
		return err
	})
	client.work(t, mux)
	const n = 40
	for i := range n {
		_, err := client.Schedule(t.Context(), mail.New(fmt.Sprint("owner", i), i, task.In(time.Second)))
		pipelinetest.Must(t, err)
	}
	client.exec(t, insertTasks("e2e.mail", "default", n))
	for range 2 {
		runShop(t, p, "work")
	}
	shop := runShop(t, p, "play")
	if code := shop.Wait(t, time.Minute); code != 0 {
		t.Fatalf("the shop ends with exit code %d: %s", code, strings.Join(shop.Lines(), "\n"))
	}
	want := "order 2 is paid too late: its task is done\norder 0 of customer-0: paid\norder 1 of customer-1: expired\n" +
		"order 2 of customer-2: expired\norder 3 of customer-3: expired\norder 4 of customer-4: expired\n"
	if got := shop.Stdout(); got != want {
		t.Errorf("the shop says\n%s\nwant\n%s", got, want)
	}
	client.exec(t, "INSERT INTO orders (id, customer, state, task) SELECT seq, 'sql', 'open', UNHEX(REPEAT('00', 16)) FROM "+
		pipelinetest.Numbers(1, n))
	client.exec(t, insertTasks("order.expire", "shop", n))
	const waiting = "SELECT COUNT(*) FROM duetime_tasks WHERE state = 0"
	pipelinetest.Await(t, "all tasks", func() bool { return client.number(t, waiting) == 0 })
	for query, want := range map[string]int{
		"SELECT COUNT(*) FROM mails":                                                            2 * n,
		"SELECT COUNT(DISTINCT task) FROM mails":                                                2 * n,
		"SELECT COUNT(*) FROM orders WHERE state = 'expired'":                                   n + 4,
		"SELECT COUNT(*) FROM orders WHERE expired <> (state = 'expired')":                      0,
		"SELECT COUNT(*) FROM duetime_tasks WHERE queue = 'shop' AND state = 1 AND version = 2": n + 3, // one was moved
		"SELECT COUNT(*) FROM duetime_tasks WHERE last_error <> ''":                             0,     // nobody has put one off
		"SELECT COUNT(*) FROM duetime_tasks WHERE state = 1 AND finished_at < run_at":           0,
	} {
		if got := client.number(t, query); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
	pipelinetest.Await(t, "the index to follow", func() bool {
		code, v := p.Verify(t)
		return code == 0 && v.Done == 3*n+4 && v.Cancelled == 1
	})
}

// insertTasks schedules n tasks by SQL, due in two seconds; each one's payload is its number.
func insertTasks(kind, queue string, n int) string {
	return fmt.Sprintf(`INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, payload, created_at, updated_at)
		SELECT UNHEX(REPLACE(UUID(), '-', '')), '%s', 'sql', '%s', CRC32('sql') MOD shards, at + 2000, at + 2000, %s, at, at
		FROM duetime_layout, (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 AS at) AS clock, %s`,
		kind, queue, payloads[kind], pipelinetest.Numbers(1, n))
}

var payloads = map[string]string{"e2e.mail": "seq", "order.expire": `CONCAT('{"order":', seq, '}')`}

// runShop runs the shop on the deployment's MySQL.
func runShop(t *testing.T, p pipelinetest.Deployment, verb string) *pipelinetest.Proc {
	t.Helper()
	cfg, err := mysql.ParseDSN(p.DSN)
	pipelinetest.Must(t, err)
	host, port, err := net.SplitHostPort(cfg.Addr)
	pipelinetest.Must(t, err)
	script, err := filepath.Abs("../../../examples/python/shop.py")
	pipelinetest.Must(t, err)
	url := fmt.Sprintf("mysql://root@%s:%s/%s", host, port, cfg.DBName)
	return pipelinetest.Run(t, "/usr/bin/python3", nil, "-B", script, url, verb)
}

func (s *service) exec(t *testing.T, query string) {
	t.Helper()
	_, err := s.DB().ExecContext(t.Context(), query)
	pipelinetest.Must(t, err)
}

func (s *service) number(t *testing.T, query string) (n int) {
	t.Helper()
	pipelinetest.Must(t, s.DB().GetContext(t.Context(), &n, query))
	return n
}
