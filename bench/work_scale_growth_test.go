package bench_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/bench/protocol"
	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

const (
	changeLimit  = 20 * time.Minute
	settleGap    = 5 * time.Second // a longer time without a moved row is a wait of the protocol, not work
	listSamples  = 1000            // at least, during a change
	sampleEvery  = 25 * time.Millisecond
	beforeChange = time.Minute // of load
	quietLimit   = 10 * time.Minute
)

// shardGrowth measures changes of the number of shards: two on an idle deployment, one under load.
func shardGrowth(w *world, f *report.Figures) {
	w.work(true)
	n := w.bench.count(1_000_000)
	owners := max(n/10, 1)
	w.indexAnew(func() { w.plantSpread(planted{n: n, owners: owners, from: farOff, spread: month}) })
	w.quieten()
	for _, to := range []int{64, 16} {
		from := w.shards()
		w.changeShards(to).add(f, fmt.Sprintf("idle, %d → %d", from, to))
	}
	w.growUnderLoad(f, n, owners)
	w.addVerify(f)
}

// growUnderLoad changes 16 shards to 64 while tasks run at the pace.
func (w *world) growUnderLoad(f *report.Figures, n, owners int64) {
	w.Helper()
	client := w.client()
	defer func() { pipelinetest.Must(w, client.Close(context.Background())) }()
	before := w.bench.seconds(beforeChange)
	j := w.soon(int64((before+w.expectedChange(n, slowestMove))/pace), pace)
	time.Sleep(time.Until(j.due.Add(before)))

	stop := make(chan struct{})
	var group errgroup.Group
	var lists listed
	group.Go(func() (err error) {
		lists, err = compareLists(w.Context(), client, w.db, owners, stop)
		return err
	})
	c := w.changeShards(64)
	close(stop)
	pipelinetest.Must(w, group.Wait())
	if c.ended.After(j.last()) {
		w.Errorf("the load ended %v before the change", c.ended.Sub(j.last()))
	}
	if _, ok := w.finish(j, 100*time.Millisecond); !ok {
		w.Errorf("not all of %d tasks were run", j.n)
	}
	c.add(f, "500 tasks a second, 16 → 64")
	w.addLags(f, j, "the change", c.began, c.ended)
	f.Text("owners' lists during the change", fmt.Sprintf("%d wrong of %d, %d of them from MySQL", lists.wrong, lists.n, lists.fromDB))
}

// addLags adds how late tasks began before something and during it.
func (w *world) addLags(f *report.Figures, j jobs, what string, began, ended time.Time) {
	w.Helper()
	marks := w.worker.must(w, protocol.Request{Op: "marks", First: j.first, Count: j.n}).Marks
	for _, span := range []struct {
		name     string
		from, to time.Time
	}{{"before", j.due, began}, {"during", began, ended}} {
		var starts []float64
		for _, m := range marks {
			if due := j.due.Add(time.Duration(m.ID-j.first) * pace); !due.Before(span.from) && due.Before(span.to) {
				starts = append(starts, float64(m.Start)/1000)
			}
		}
		slices.Sort(starts)
		f.Text("lag, "+span.name+" "+what+", start p50 and p99 (ms)",
			fmt.Sprintf("%.2f and %.2f of %d", report.Percentile(starts, 50), report.Percentile(starts, 99), len(starts)))
	}
}

// slowestMove is how many rows move a second at least, beside the load.
const slowestMove = 700

// expectedChange is how long a change of n rows may take at the slowest rate a second: the load must not end before it.
func (w *world) expectedChange(n, slowest int64) time.Duration {
	return time.Minute + time.Duration(n/slowest)*time.Second
}

// change is a change of the number of shards as it was seen from outside.
type change struct {
	began, ended time.Time
	moved, first int64         // rows; first of them were moved when the first look saw any
	moving       time.Duration // in which the others moved, without the waits
}

func (c change) add(f *report.Figures, what string) {
	rate := 0.0
	if c.moving > 0 {
		rate = float64(c.moved-c.first) / c.moving.Seconds()
	}
	f.Text("shards, "+what, fmt.Sprintf("%d rows moved, %.0f a second while rows moved; %.1f s as a whole", c.moved, rate, c.ended.Sub(c.began).Seconds()))
}

// changeShards changes the number of shards by the tool and follows the layout until the change is over.
func (w *world) changeShards(to int) (c change) {
	w.Helper()
	verb := "grow"
	if to < w.shards() {
		verb = "shrink"
	}
	c.began = time.Now()
	if code, out := w.deployment.Duetime(w, "shard", verb, strconv.Itoa(to), "--yes"); code != 0 {
		w.Fatalf("shard %s %d: exit code %d, said %s", verb, to, code, out)
	}
	last := time.Time{} // when rows were last seen to have moved
	w.await(changeLimit, "the change of shards to be over", func() bool {
		var moved int64
		var from int
		pipelinetest.Must(w, w.db.QueryRowContext(w.Context(), "SELECT moved, shards_from FROM duetime_layout").Scan(&moved, &from))
		now := time.Now()
		if moved > c.moved {
			if last.IsZero() {
				c.first = moved
			} else if gap := now.Sub(last); gap < settleGap {
				c.moving += gap
			}
			c.moved, last = moved, now
		}
		return from == 0
	})
	c.ended = time.Now()
	w.Logf("%s to %d: %d rows moved in %v, the first %d not timed", verb, to, c.moved, c.moving, c.first)
	return c
}

// client opens one in this process.
func (w *world) client() *duetime.Client {
	w.Helper()
	cfg := duetime.DefaultConfig()
	cfg.Namespace, cfg.MySQL.DSN = w.deployment.Namespace, duetime.DSN(w.deployment.DSN)
	cfg.Redis.Addrs, cfg.Kafka.Brokers, cfg.ZooKeeper.Servers = []string{w.deployment.Redis}, []string{w.deployment.Kafka}, []string{w.deployment.ZooKeeper}
	c, err := duetime.Open(cfg, duetime.WithLogger(slog.New(slog.DiscardHandler)))
	pipelinetest.Must(w, err)
	pipelinetest.Must(w, c.Ready(w.Context()))
	return c
}

// listed counts comparisons of owners' lists with their rows.
type listed struct{ n, wrong, fromDB int }

// compareLists compares random owners' lists with their rows until it is stopped, and at least listSamples of them. The
// owners' tasks are due far off, and nothing else changes them.
func compareLists(ctx context.Context, client *duetime.Client, db *sql.DB, owners int64, stop <-chan struct{}) (l listed, err error) {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			if l.n >= listSamples {
				return l, nil
			}
			stop = nil
		case <-ticker.C:
			if stop == nil && l.n >= listSamples {
				return l, nil
			}
		}
		owner := fmt.Sprint("player-", rand.Int64N(owners))
		entries, source, err := client.Tasks(ctx, owner, "")
		if err != nil {
			return l, err
		}
		have := make([]string, len(entries))
		for i, e := range entries {
			have[i] = e.ID.String()
		}
		want, err := rowsOf(ctx, db, owner)
		if err != nil {
			return l, err
		}
		slices.Sort(have)
		slices.Sort(want)
		l.n++
		if !slices.Equal(have, want) {
			l.wrong++
		}
		if source == "db" {
			l.fromDB++
		}
	}
}

// rowsOf reads the ids of an owner's pending rows.
func rowsOf(ctx context.Context, db *sql.DB, owner string) (ids []string, err error) {
	rows, err := db.QueryContext(ctx, "SELECT id FROM duetime_tasks WHERE owner = ? AND state = 0", owner)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var b []byte
		if err := rows.Scan(&b); err != nil {
			return nil, err
		}
		ids = append(ids, task.ID(b).String())
	}
	return ids, rows.Err()
}

// addVerify adds what duetime verify counts, and after how long it counts nothing.
func (w *world) addVerify(f *report.Figures) {
	w.Helper()
	began := time.Now()
	code, v := w.deployment.Verify(w)
	f.Text("duetime verify right after", fmt.Sprintf("%d overdue, %d missing, %d extra", v.Overdue, v.Missing, v.Extra))
	if code == 0 {
		return
	}
	w.await(quietLimit, "verify to find nothing", func() bool {
		code, v = w.deployment.Verify(w)
		return code == 0
	})
	f.Add("until duetime verify found nothing", time.Since(began).Seconds(), "s")
}
