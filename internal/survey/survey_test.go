package survey_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/survey"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

// world has real servers, each behind a link that a test can cut.
type world struct {
	t      *testing.T
	store  *worldtest.Store
	index  *index.Index
	stream *stream.Kafka

	mysql, redis, kafka *pipelinetest.ToxicProxy
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	name, server := pipelinetest.Namespace(t), pipelinetest.MySQL(t)
	w.mysql, w.redis = pipelinetest.Proxy(t, server.Addr()), pipelinetest.Proxy(t, pipelinetest.Redis(t).Addr())
	_, w.kafka = pipelinetest.OwnKafkaBehind(t)
	dsn := worldtest.NewStore(t, name, store.Options{}).DSN
	w.store = worldtest.OpenStore(t, strings.Replace(dsn, server.Addr(), w.mysql.Addr(), 1), store.Options{})
	var err error
	w.index, err = index.Open(index.Config{Namespace: name, Addrs: []string{w.redis.Addr()}})
	pipelinetest.Must(t, err)
	w.stream, err = stream.NewKafka(stream.Config{Namespace: name, Brokers: []string{w.kafka.Addr()}, Partitions: 3})
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, w.stream.Ensure(t.Context()))
	t.Cleanup(func() { _, _ = w.stream.Close(), w.index.Close() })
	return w
}

// read returns every sample of a new survey, by name and label. A new survey has cached nothing.
func (w *world) read() map[string]float64 {
	w.t.Helper()
	return samples(w.t, w.survey())
}

func (w *world) survey() *survey.Survey {
	processes := func(context.Context) ([]survey.Processes, error) {
		return []survey.Processes{{Role: "worker", State: "alive", Processes: 2}, {Role: "worker", State: "silent"}}, nil
	}
	return survey.New(survey.Config{Queues: []string{"default"}, Layout: fixed, Processes: processes}, w.store, w.index, w.stream)
}

func fixed(context.Context) (protocol.Layout, error) {
	return protocol.Layout{Shards: worldtest.Shards, ShardsEver: worldtest.Shards}, nil
}

func samples(t *testing.T, s *survey.Survey) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	families, err := registry.Gather()
	pipelinetest.Must(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return got
}

// insert writes rows that have been due for a while, and returns them.
func (w *world) insert(ago ...time.Duration) []task.Task {
	w.t.Helper()
	now, err := w.store.Now(w.t.Context(), nil)
	pipelinetest.Must(w.t, err)
	kind := task.NewKind[string]("k")
	var tasks []task.Task
	for i, d := range ago {
		row, err := kind.New("owner"+strconv.Itoa(i), "", task.At(now)).Resolve(now)
		pipelinetest.Must(w.t, err)
		row.DueAt, row.RunAt = now.Add(-d), now.Add(-d)
		tasks = append(tasks, row)
	}
	tx, err := w.store.Begin(w.t.Context())
	pipelinetest.Must(w.t, err)
	tasks, err = w.store.Insert(w.t.Context(), tx, tasks)
	pipelinetest.Must(w.t, errors.Join(err, tx.Commit()))
	return tasks
}

func TestFigures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	empty := w.whole()
	for name, want := range map[string]float64{
		"duetime_server_up mysql": 1, "duetime_server_up redis": 1, "duetime_server_up kafka": 1,
		"duetime_oldest_unfinished_due_age_seconds default": 0, "duetime_queue_paused default": 0, "duetime_tasks pending": 0, "duetime_tasks dead": 0,
		"duetime_index_entries 3": 0, "duetime_redis_evicted_keys_total": 0, "duetime_consumer_lag_hints default": 0,
		"duetime_processes worker alive": 2, "duetime_processes worker silent": 0,
	} {
		if got, ok := empty[name]; !ok || got != want {
			t.Errorf("nothing there: %s is %v (%v), want %v", name, got, ok, want)
		}
	}

	tasks := w.insert(time.Minute, -time.Hour, -time.Hour)
	dead := transition.Discard(tasks[1], errors.New("no use"), tasks[1].CreatedAt)
	pipelinetest.Must(t, worldtest.Save(t.Context(), w.store.Store, w.store.DB(), dead))
	pipelinetest.Must(t, w.index.Put(t.Context(), []task.Task{tasks[0], tasks[2]}))
	hint := protocol.Entry{ID: tasks[0].ID, Kind: "k", Queue: "default", Owner: tasks[0].Owner, Score: protocol.ScoreOf(tasks[0])}
	if errs := w.stream.Publish(t.Context(), []protocol.Entry{hint, hint}, 1); errs != nil {
		t.Fatal(errs)
	}

	const oldest = "duetime_oldest_unfinished_due_age_seconds default"
	pipelinetest.Await(t, "the floor to fall to the rows", func() bool { return w.read()[oldest] > 0 })
	got, entries := w.whole(), 0.0
	for shard := range worldtest.Shards {
		entries += got["duetime_index_entries "+strconv.Itoa(shard)]
	}
	for name, want := range map[string]float64{"duetime_tasks pending": 2, "duetime_tasks dead": 1, "duetime_consumer_lag_hints default": 2} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if age := got[oldest]; age < 60 || age > 600 {
		t.Errorf("the oldest is %v s old, want 60 and a little", age)
	}
	if entries != 2 {
		t.Errorf("%v entries in all shards, want 2", entries)
	}
	if at := time.Unix(int64(got["duetime_tasks_counted_timestamp_seconds"]), 0); time.Since(at).Abs() > time.Hour {
		t.Errorf("counted at %v", at)
	}
}

// whole reads until all servers have answered in time: a new broker first has to create the group's coordinator.
func (w *world) whole() (got map[string]float64) {
	w.t.Helper()
	pipelinetest.Await(w.t, "an answer of each server", func() bool {
		got = w.read()
		_, lag := got["duetime_consumer_lag_hints default"]
		_, counted := got["duetime_tasks pending"]
		return lag && counted && got["duetime_server_up mysql"]+got["duetime_server_up redis"]+got["duetime_server_up kafka"] == 3
	})
	return got
}

// TestNoFigureOutlivesItsServer makes each server silent, and then makes it refuse.
func TestNoFigureOutlivesItsServer(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		server string
		link   *pipelinetest.ToxicProxy
		gone   []string
	}{
		{"mysql", w.mysql, []string{"duetime_oldest_unfinished_due_age_seconds default"}},
		{"redis", w.redis, []string{"duetime_index_entries 0", "duetime_redis_evicted_keys_total"}},
		{"kafka", w.kafka, []string{"duetime_consumer_lag_hints default"}},
	} {
		for how, cut := range map[string]func(){"silent": c.link.Cut, "refuses": c.link.Refuse} {
			s := w.survey()
			shown := func() (up float64, figures int) {
				got := samples(t, s)
				for _, name := range c.gone {
					if _, there := got[name]; there {
						figures++
					}
				}
				return got["duetime_server_up "+c.server], figures
			}
			all := func() bool { up, figures := shown(); return up == 1 && figures == len(c.gone) }
			pipelinetest.Await(t, c.server+"'s figures", all)
			cut()
			var figures int
			pipelinetest.Await(t, c.server+" gone: it "+how, func() bool { // at once, or when what was seen last has grown old
				var up float64
				up, figures = shown()
				return up == 0
			})
			if figures != 0 {
				t.Errorf("%s %s: %d figures outlive it", c.server, how, figures)
			}
			c.link.Heal()
			pipelinetest.Await(t, c.server+" back", all)
		}
	}
}

// asked counts the calls of each method.
type asked struct{ oldest, count, ping, counts int }

func (a *asked) Oldest(context.Context) (oldest map[string]time.Time, now time.Time, err error) {
	a.oldest++
	return
}
func (a *asked) Count(context.Context, task.State) (int64, error)     { a.count++; return 0, nil }
func (a *asked) Paused(context.Context) (map[string]time.Time, error) { return nil, nil }
func (a *asked) Queues(context.Context) ([]string, error)             { return nil, nil }
func (a *asked) Ping(context.Context) error                           { a.ping++; return nil }
func (a *asked) Counts(context.Context, int) ([]int64, error)         { a.counts++; return nil, nil }
func (a *asked) Evicted(context.Context) (int64, error)               { return 0, nil }
func (a *asked) Lag(context.Context, string) (int64, error)           { return 0, nil }

// TestCountsSeldom reads the metrics in quick succession: only the oldest tasks are read each time.
func TestCountsSeldom(t *testing.T) {
	t.Parallel()
	a := &asked{}
	s := survey.New(survey.Config{Queues: []string{"q"}, Layout: fixed}, a, a, a)
	for range 5 {
		samples(t, s)
	}
	if want := (asked{oldest: 5, count: 2, ping: 1, counts: 1}); *a != want {
		t.Errorf("asked %+v, want %+v", *a, want)
	}
}

// A database that doesn't tell its transactions has no sample of them.
func TestOldestTransaction(t *testing.T) {
	t.Parallel()
	const name = "duetime_database_oldest_transaction_seconds"
	a := &asked{}
	for _, known := range []bool{true, false} {
		got := samples(t, survey.New(survey.Config{Layout: fixed, OldestTransaction: func(context.Context) (time.Duration, bool, error) {
			return 90 * time.Second, known, nil
		}}, a, a, a))
		if seconds, shown := got[name]; shown != known || known && seconds != 90 {
			t.Errorf("%s is %v, shown: %v; want 90, shown: %v", name, seconds, shown, known)
		}
	}
}

// paused is a database where a queue is paused.
type paused struct{ *asked }

func (paused) Paused(context.Context) (map[string]time.Time, error) {
	return map[string]time.Time{"q": {}}, nil
}

func TestPausedQueues(t *testing.T) {
	t.Parallel()
	a := &asked{}
	got := samples(t, survey.New(survey.Config{Queues: []string{"q", "other"}, Layout: fixed}, paused{a}, a, a))
	if got["duetime_queue_paused q"] != 1 || got["duetime_queue_paused other"] != 0 {
		t.Errorf("told of %v", got)
	}
}

// waiting is a database where tasks of several queues are due.
type waiting struct{ *asked }

func (waiting) Oldest(context.Context) (oldest map[string]time.Time, now time.Time, err error) {
	now = time.UnixMilli(1_800_000_000_000)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	return map[string]time.Time{"q": ago(7 * time.Second), "stray": ago(time.Minute), "lost": ago(time.Hour)}, now, nil
}

// Each queue has an age of its own, so that an alert is silenced for one of them. Those that nobody has configured share one.
func TestOldestByQueue(t *testing.T) {
	t.Parallel()
	a := &asked{}
	got := samples(t, survey.New(survey.Config{Queues: []string{"q", "idle"}, Layout: fixed}, waiting{a}, a, a))
	for queue, want := range map[string]float64{"q": 7, "idle": 0, "other": 3600} {
		if age, ok := got["duetime_oldest_unfinished_due_age_seconds "+queue]; !ok || age != want {
			t.Errorf("queue %s: %v s, want %v", queue, age, want)
		}
	}
}

// swamped is a database with more pending rows than can be counted within the timeout.
type swamped struct{ *asked }

func (s swamped) Count(_ context.Context, state task.State) (int64, error) {
	if state == task.Pending {
		return 0, context.DeadlineExceeded
	}
	return 7, nil
}

func TestTheDeadAreToldWithoutThePending(t *testing.T) {
	t.Parallel()
	a := &asked{}
	got := samples(t, survey.New(survey.Config{Queues: []string{"q"}, Layout: fixed}, swamped{a}, a, a))
	_, counted := got["duetime_tasks_counted_timestamp_seconds"]
	if _, pending := got["duetime_tasks pending"]; pending || got["duetime_tasks dead"] != 7 || !counted {
		t.Errorf("told of %v", got)
	}
}

// flaky is a stream whose first Ping fails.
type flaky struct{ *asked }

func (f flaky) Ping(ctx context.Context) error {
	_ = f.asked.Ping(ctx) // returns nil
	if f.ping == 1 {
		return errors.New("away")
	}
	return nil
}

// TestWhoIsBackIsSeenAtOnce checks that a server which answers again is not reported by the cached failure.
func TestWhoIsBackIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	a := &asked{}
	s := survey.New(survey.Config{Queues: []string{"q"}, Layout: fixed}, a, a, flaky{a})
	for _, want := range []float64{0, 1, 1} {
		if got := samples(t, s)["duetime_server_up kafka"]; got != want {
			t.Errorf("up is %v, want %v", got, want)
		}
	}
	if a.ping != 2 {
		t.Errorf("asked %d times, want 2: a success is remembered, a failure is not", a.ping)
	}
}

// Each kind that waits for a worker of its kind has a figure, and the kinds beyond a hundred share one.
func TestUnhandledKinds(t *testing.T) {
	t.Parallel()
	a := &asked{}
	var kinds []protocol.Unhandled
	s := func() map[string]float64 {
		return samples(t, survey.New(survey.Config{Layout: fixed, Unhandled: func(context.Context) ([]protocol.Unhandled, error) { return kinds, nil }}, a, a, a))
	}
	if got := s(); got["duetime_unhandled_tasks other other"] != 0 || len(got) == 0 {
		t.Errorf("none: %v", got)
	}
	kinds = append(kinds, protocol.Unhandled{Queue: "default", Kind: "meel", Tasks: 7})
	for i := range 120 {
		kinds = append(kinds, protocol.Unhandled{Queue: "q", Kind: strconv.Itoa(i), Tasks: 1})
	}
	got := s()
	if got["duetime_unhandled_tasks meel default"] != 7 || got["duetime_unhandled_tasks other other"] != 21 {
		t.Errorf("meel: %v, others: %v, want 7 and 21", got["duetime_unhandled_tasks meel default"], got["duetime_unhandled_tasks other other"])
	}
}
