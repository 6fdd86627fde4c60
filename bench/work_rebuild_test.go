package bench_test

import (
	"slices"
	"time"

	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// rebuild measures how long the index is away after Redis lost all, and how late what becomes due meanwhile is.
func rebuild(w *world) {
	w.work(true)
	n := w.bench.count(1_000_000)
	w.stand(n)
	w.repeat(func(int) {
		j := w.soon(w.bench.count(1000), 0)
		keys := w.keys()
		// Just before the hints of what is due would be sent, which is some 50 ms ahead.
		time.Sleep(time.Until(j.due.Add(-150 * time.Millisecond)))
		flushed := time.Now()
		pipelinetest.Must(w, w.redis.FlushAll(w.Context()).Err())
		w.awaitWhole()
		took := time.Since(flushed).Seconds()
		w.record(report.RebuildTook, took)
		w.record(report.RebuildRate, float64(n)/took)
		if _, ok := w.finish(j, 10*time.Millisecond); !ok {
			w.Errorf("not all of what was due was run")
		}
		w.record(report.RebuildFire, time.UnixMicro(w.seen(false).Last).Sub(flushed).Seconds())
		if again := w.keys(); again < keys-float64(j.n) {
			w.Errorf("%.0f keys after the rebuild, %.0f before", again, keys)
		}
	})
}

// ask has fn do something with duetime's index.
func (w *world) ask(fn func(x *index.Index, shards int)) {
	w.Helper()
	x, err := index.Open(index.Config{Namespace: w.deployment.Namespace, Addrs: []string{w.env.Redis}})
	pipelinetest.Must(w, err)
	defer func() { pipelinetest.Must(w, x.Close()) }()
	fn(x, w.shards())
}

// awaitWhole waits until each shard's generation marker stands.
func (w *world) awaitWhole() {
	w.Helper()
	w.ask(func(x *index.Index, shards int) {
		w.await(wholeLimit, "the index to be whole", func() bool {
			marked, err := x.Marked(w.Context(), shards)
			pipelinetest.Must(w, err)
			return !slices.Contains(marked, false)
		})
	})
}

// wholeLimit is for ten million rows.
const wholeLimit = 10 * time.Minute

// indexed counts what can fire, and waits until it is as much as wanted.
func (w *world) indexed(want int64) (n int64) {
	w.Helper()
	w.ask(func(x *index.Index, shards int) {
		w.await(restLimit, "the index to have what was made", func() bool {
			all, err := x.Shards(w.Context(), shards)
			pipelinetest.Must(w, err)
			n = 0
			for _, s := range all {
				n += s.Due
			}
			return n >= want
		})
	})
	return n
}

// shards reads how many there are.
func (w *world) shards() (n int) {
	w.Helper()
	pipelinetest.Must(w, w.db.QueryRowContext(w.Context(), "SELECT shards FROM duetime_layout").Scan(&n))
	return n
}

// keys counts those in Redis: one for each owner and some for each shard.
func (w *world) keys() float64 {
	w.Helper()
	n, err := w.redis.DBSize(w.Context()).Result()
	pipelinetest.Must(w, err)
	return float64(n)
}

// await polls until the condition holds.
func (w *world) await(limit time.Duration, what string, done func() bool) {
	w.Helper()
	for deadline := time.Now().Add(limit); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("waited %v for %s", limit, what)
		}
	}
}
