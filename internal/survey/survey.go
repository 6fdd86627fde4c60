// Package survey asks the servers how the pipeline stands, whenever somebody reads the metrics: how old the oldest
// unfinished task is, how many wait, what the index holds, how far the workers are behind.
//
// It promises that no figure outlives its server: who doesn't answer within a moment has no figures, and
// duetime_server_up says 0. Counts of rows alone are remembered for longer, with the time when they were made. It asks
// nothing while nobody reads, and never counts rows for more than a hundredth of the time. It changes nothing anywhere.
package survey

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/pkg/task"
)

// Store is what a survey needs of MySQL.
type Store interface {
	// Oldest returns the earliest next try of all pending rows, zero for none, and the database's time.
	Oldest(ctx context.Context) (oldest, now time.Time, err error)
	Count(ctx context.Context, state task.State) (int64, error)
}

// Index is what a survey needs of Redis.
type Index interface {
	// Counts returns how many entries each shard holds.
	Counts(ctx context.Context, shards int) ([]int64, error)
	// Evicted counts the entries that Redis has thrown out.
	Evicted(ctx context.Context) (int64, error)
}

// Stream is what a survey needs of Kafka.
type Stream interface {
	Ping(ctx context.Context) error
	// Lag returns how many of a queue's hints its workers have not committed.
	Lag(ctx context.Context, queue string) (int64, error)
}

// Unhandled is how many tasks of a queue and kind wait for a worker that knows the kind.
type Unhandled struct {
	Queue, Kind string
	Tasks       int64
}

// Config says what to look at.
type Config struct {
	Queues []string
	// Unhandled reads the tasks that wait for a worker which knows their kind, the largest numbers first; nil: it is not asked.
	Unhandled func(ctx context.Context) ([]Unhandled, error)
	Layout    func(ctx context.Context) (task.Layout, error)
}

const (
	lookTimeout  = 2 * time.Second  // a server answers, or has no figures
	countTimeout = 5 * time.Second  // the same for counts of rows
	slowInterval = 10 * time.Second // between two looks at what moves slowly
)

var (
	upDesc     = desc("duetime_server_up", "1 if the server answered when it was last asked, else 0.", "server")
	oldestDesc = desc("duetime_oldest_unfinished_due_age_seconds",
		"How long ago the oldest pending task was to be tried next, by MySQL's rows and clock; 0 if none is due. No sample while MySQL doesn't answer.")
	tasksDesc     = desc("duetime_tasks", "Rows in a state: pending or dead. How long ago they were counted says duetime_tasks_counted_timestamp_seconds.", "state")
	countedDesc   = desc("duetime_tasks_counted_timestamp_seconds", "When duetime_tasks was counted, in Unix seconds of this machine's clock.")
	entriesDesc   = desc("duetime_index_entries", "Entries in the due set of each shard.", "shard")
	evictionsDesc = desc("duetime_redis_evicted_keys_total", "Keys that Redis has thrown out for want of memory since it began.")
	unhandledDesc = desc("duetime_unhandled_tasks", "Pending tasks that wait for a worker which knows their kind, among those whose next try comes first.", "queue", "kind")
	lagDesc       = desc("duetime_consumer_lag_hints", "Hints of a queue that its workers have not committed yet.", "queue")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Survey is a collector of metrics. It is safe for concurrent use.
type Survey struct {
	cfg    Config
	store  Store
	index  Index
	stream Stream
	polled atomic.Int64 // shards, as last read: MySQL may be away while Redis is asked
	looks  []*look
}

// New makes a survey; it asks nothing yet.
func New(cfg Config, store Store, index Index, stream Stream) *Survey {
	s := &Survey{cfg: cfg, store: store, index: index, stream: stream}
	s.looks = []*look{
		{server: "mysql", timeout: lookTimeout, read: s.readOldest},
		{timeout: countTimeout, every: slowInterval, share: 100, read: s.readTasks},
		{timeout: countTimeout, every: slowInterval, share: 100, read: s.readUnhandled},
		{server: "redis", timeout: lookTimeout, every: slowInterval, read: s.readIndex},
		{server: "kafka", timeout: lookTimeout, every: slowInterval, read: s.readLag},
	}
	return s
}

// Describe names the metrics.
func (s *Survey) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{upDesc, oldestDesc, tasksDesc, countedDesc, entriesDesc, evictionsDesc, unhandledDesc, lagDesc} {
		ch <- d
	}
}

// Collect asks all servers side by side.
func (s *Survey) Collect(ch chan<- prometheus.Metric) {
	var all sync.WaitGroup
	for _, l := range s.looks {
		all.Go(func() {
			for _, m := range l.metrics() {
				ch <- m
			}
		})
	}
	all.Wait()
}

// look is what is asked of one server at once.
type look struct {
	server  string        // in duetime_server_up; empty: another look tells
	timeout time.Duration // of the answer
	every   time.Duration // at most
	share   time.Duration // how many times as long as a look took its server is left alone
	read    func(ctx context.Context) ([]prometheus.Metric, error)

	mu    sync.Mutex
	next  time.Time // not before
	found []prometheus.Metric
}

// metrics asks, or gives what was found a moment ago.
func (l *look) metrics() []prometheus.Metric {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.next) {
		return l.found
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
	defer cancel()
	began := time.Now()
	found, err := l.read(ctx)
	l.next = began.Add(max(l.every, l.share*time.Since(began)))
	up := 1.0
	if err != nil {
		found, up = nil, 0
	}
	if err != nil && l.server != "" {
		l.next = time.Time{} // who is back is not to be taken for away
	}
	if l.server != "" {
		found = append(found, gauge(upDesc, up, l.server))
	}
	l.found = found
	return found
}

func (s *Survey) readOldest(ctx context.Context) ([]prometheus.Metric, error) {
	oldest, now, err := s.store.Oldest(ctx)
	if err != nil {
		return nil, err
	}
	age := 0.0
	if !oldest.IsZero() {
		age = max(now.Sub(oldest).Seconds(), 0)
	}
	return []prometheus.Metric{gauge(oldestDesc, age)}, nil
}

// readTasks leaves the other states out: finished rows are by far the most, and nobody waits for them. Where the pending ones
// are too many to be counted in time, the dead are told all the same: there is an alert on them.
func (s *Survey) readTasks(ctx context.Context) ([]prometheus.Metric, error) {
	var found []prometheus.Metric
	for _, state := range []task.State{task.Dead, task.Pending} {
		n, err := s.store.Count(ctx, state)
		if err != nil && len(found) > 0 {
			break
		}
		if err != nil {
			return nil, err
		}
		found = append(found, gauge(tasksDesc, float64(n), state.String()))
	}
	return append(found, gauge(countedDesc, float64(time.Now().UnixMilli())/1000)), nil
}

const (
	maxUnhandledKinds = 100 // with a figure of their own: rows of other programs could have any number
	otherKinds        = "other"
)

// readUnhandled tells of kinds that no worker knows, where the workers' own counters can't: a service without metrics.
func (s *Survey) readUnhandled(ctx context.Context) ([]prometheus.Metric, error) {
	if s.cfg.Unhandled == nil {
		return nil, nil
	}
	all, err := s.cfg.Unhandled(ctx)
	if err != nil {
		return nil, err
	}
	var found []prometheus.Metric
	others := int64(0)
	for i, u := range all {
		if i >= maxUnhandledKinds {
			others += u.Tasks
			continue
		}
		found = append(found, gauge(unhandledDesc, float64(u.Tasks), u.Queue, u.Kind))
	}
	return append(found, gauge(unhandledDesc, float64(others), otherKinds, otherKinds)), nil // so that the metric is always there
}

func (s *Survey) readIndex(ctx context.Context) ([]prometheus.Metric, error) {
	if layout, err := s.cfg.Layout(ctx); err == nil {
		s.polled.Store(int64(layout.Polled()))
	}
	counts, err := s.index.Counts(ctx, int(s.polled.Load()))
	if err != nil {
		return nil, err
	}
	evicted, err := s.index.Evicted(ctx)
	if err != nil {
		return nil, err
	}
	found := []prometheus.Metric{prometheus.MustNewConstMetric(evictionsDesc, prometheus.CounterValue, float64(evicted))}
	for shard, n := range counts {
		found = append(found, gauge(entriesDesc, float64(n), strconv.Itoa(shard)))
	}
	return found, nil
}

// readLag leaves out a queue whose partitions don't all answer, as while its topic is being made.
func (s *Survey) readLag(ctx context.Context) ([]prometheus.Metric, error) {
	if err := s.stream.Ping(ctx); err != nil {
		return nil, err
	}
	var found []prometheus.Metric
	for _, queue := range s.cfg.Queues {
		if n, err := s.stream.Lag(ctx, queue); err == nil {
			found = append(found, gauge(lagDesc, float64(n), queue))
		}
	}
	return found, nil
}

func gauge(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}
