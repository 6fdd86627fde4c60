// Package survey asks the servers for the pipeline's state whenever somebody reads the metrics: the age of the oldest
// unfinished task, the number of waiting tasks, the entries of the index, and the workers' backlog.
//
// It promises that no figure outlives its server: a server that doesn't answer within a moment has no figures, and
// duetime_server_up says 0. Only counts of rows are cached for longer, with the time when they were made. Nobody is asked
// while nobody reads, and rows are counted for at most a hundredth of the time. The package changes nothing anywhere.
package survey

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Store is the part of MySQL that a survey reads.
type Store interface {
	// Oldest returns by queue the earliest run time of the due rows that are not late by intent, and the database's time.
	Oldest(ctx context.Context) (oldest map[string]time.Time, now time.Time, err error)
	Count(ctx context.Context, state task.State) (int64, error)
	// Paused returns the paused queues.
	Paused(ctx context.Context) (map[string]time.Time, error)
	// Queues returns the queues that operators have added.
	Queues(ctx context.Context) ([]string, error)
}

// Index is the part of Redis that a survey reads.
type Index interface {
	// Counts returns how many entries each shard holds.
	Counts(ctx context.Context, shards int) ([]int64, error)
	// Evicted counts the keys that Redis has evicted.
	Evicted(ctx context.Context) (int64, error)
}

// Stream is the part of Kafka that a survey reads.
type Stream interface {
	Ping(ctx context.Context) error
	// Lag returns the backlog of a queue: its hints that no worker has committed.
	Lag(ctx context.Context, queue string) (int64, error)
}

// Processes counts the processes of a role that are in a state: alive, stuck or silent.
type Processes struct {
	Role, State string
	Processes   int
}

// Config says where figures come from.
type Config struct {
	Queues []string // of the configuration
	// Unhandled reads the tasks that wait for a worker of their kind, the largest numbers first; nil disables the metric.
	Unhandled func(ctx context.Context) ([]protocol.Unhandled, error)
	// Behind counts the tasks that wait for an earlier one of their order key, for longer than a minute; nil disables the metric.
	Behind func(ctx context.Context) (int64, error)
	// Processes counts the processes that have not said that they stopped; nil disables the metric.
	Processes func(ctx context.Context) ([]Processes, error)
	// OldestTransaction returns for how long MySQL's oldest transaction has been open; false if that is not known. Nil disables the
	// metric.
	OldestTransaction func(ctx context.Context) (time.Duration, bool, error)
	Layout            func(ctx context.Context) (protocol.Layout, error)
}

const (
	answerTimeout = 2 * time.Second  // a server that takes longer has no figures
	countTimeout  = 5 * time.Second  // for counts of rows
	slowInterval  = 10 * time.Second // between two reads of figures that change slowly
)

var (
	upDesc     = desc("duetime_server_up", "1 if the server answered when it was last asked, else 0.", "server")
	oldestDesc = desc("duetime_oldest_unfinished_due_age_seconds",
		"How long ago the queue's oldest pending task was to be tried next, by MySQL's rows and clock; 0 if none is due. No sample while MySQL doesn't answer.", "queue")
	pausedDesc    = desc("duetime_queue_paused", "1 while the queue is paused, else 0.", "queue")
	tasksDesc     = desc("duetime_tasks", "Rows in a state: pending or dead. How long ago they were counted says duetime_tasks_counted_timestamp_seconds.", "state")
	countedDesc   = desc("duetime_tasks_counted_timestamp_seconds", "When duetime_tasks was counted, in Unix seconds of this machine's clock.")
	entriesDesc   = desc("duetime_index_entries", "Entries in the due set of each shard.", "shard")
	evictionsDesc = desc("duetime_redis_evicted_keys_total", "Keys that Redis has thrown out for want of memory since it began.")
	unhandledDesc = desc("duetime_unhandled_tasks", "Pending tasks that wait for a worker which knows their kind, among those whose next try comes first.", "queue", "kind")
	behindDesc    = desc("duetime_tasks_behind", "Pending tasks that have waited for an earlier one of their order key for longer than a minute, "+
		"among those whose next try comes first.")
	processesDesc = desc("duetime_processes", "Processes by their last reports: alive, stuck (a handler runs for longer than its limit), or silent for up to an hour.",
		"process", "state")
	oldestTxDesc = desc("duetime_database_oldest_transaction_seconds",
		"For how long the oldest transaction of MySQL's server, of any user, has been open; 0 for none. No sample without the right PROCESS.")
	lagDesc = desc("duetime_consumer_lag_hints", "Hints of a queue that its workers have not committed yet.", "queue")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Survey is a collector of metrics. It is safe for concurrent use.
type Survey struct {
	cfg     Config
	store   Store
	index   Index
	stream  Stream
	polled  atomic.Int64             // shards, as last read: Redis is asked even while MySQL is away
	further atomic.Pointer[[]string] // queues that operators have added, as last read
	sources []*source
}

// New makes a survey. It asks no server.
func New(cfg Config, store Store, index Index, stream Stream) *Survey {
	s := &Survey{cfg: cfg, store: store, index: index, stream: stream}
	s.sources = []*source{
		{server: "mysql", timeout: answerTimeout, read: s.readOldest},
		{timeout: countTimeout, minInterval: slowInterval, idleFactor: 100, read: s.readTasks},
		{timeout: countTimeout, minInterval: slowInterval, idleFactor: 100, read: s.readUnhandled},
		{timeout: countTimeout, minInterval: slowInterval, idleFactor: 100, read: s.readBehind},
		{timeout: answerTimeout, minInterval: slowInterval, read: s.readProcesses},
		{timeout: answerTimeout, minInterval: slowInterval, read: s.readOldestTransaction},
		{server: "redis", timeout: answerTimeout, minInterval: slowInterval, read: s.readIndex},
		{server: "kafka", timeout: answerTimeout, minInterval: slowInterval, read: s.readLag},
	}
	return s
}

// Describe names the metrics.
func (s *Survey) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{upDesc, oldestDesc, pausedDesc, tasksDesc, countedDesc, entriesDesc, evictionsDesc, unhandledDesc, behindDesc, processesDesc, oldestTxDesc, lagDesc} {
		ch <- d
	}
}

// Collect reads all sources concurrently.
func (s *Survey) Collect(ch chan<- prometheus.Metric) {
	var all sync.WaitGroup
	for _, source := range s.sources {
		all.Go(func() {
			for _, m := range source.metrics() {
				ch <- m
			}
		})
	}
	all.Wait()
}

// source reads figures from one server and caches them.
type source struct {
	server      string        // label of duetime_server_up; empty: another source of the server reports it
	timeout     time.Duration // of one read
	minInterval time.Duration // between the beginnings of two reads
	idleFactor  time.Duration // the next read waits for this multiple of the last read's duration
	read        func(ctx context.Context) ([]prometheus.Metric, error)

	mu     sync.Mutex
	next   time.Time // cached is valid until then
	cached []prometheus.Metric
}

// metrics returns the cached figures, or reads them.
func (l *source) metrics() []prometheus.Metric {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.next) {
		return l.cached
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
	defer cancel()
	began := time.Now()
	found, err := l.read(ctx)
	l.next = began.Add(max(l.minInterval, l.idleFactor*time.Since(began)))
	up := 1.0
	if err != nil {
		found, up = nil, 0
	}
	if err != nil && l.server != "" {
		l.next = time.Time{} // a server that is back must not be reported as away for slowInterval
	}
	if l.server != "" {
		found = append(found, gauge(upDesc, up, l.server))
	}
	l.cached = found
	return found
}

// queues are those of the configuration, and those that operators have added.
func (s *Survey) queues() []string {
	if further := s.further.Load(); further != nil {
		all := slices.Concat(s.cfg.Queues, *further)
		slices.Sort(all)
		return slices.Compact(all)
	}
	return s.cfg.Queues
}

// otherQueues stands for queues that are neither configured nor were added: rows of other programs may have any number of them.
const otherQueues = "other"

func (s *Survey) readOldest(ctx context.Context) ([]prometheus.Metric, error) {
	oldest, now, err := s.store.Oldest(ctx)
	if err != nil {
		return nil, err
	}
	further, err := s.store.Queues(ctx)
	if err != nil {
		return nil, err
	}
	s.further.Store(&further)
	ages := map[string]float64{otherQueues: 0}
	for _, queue := range s.queues() {
		ages[queue] = 0
	}
	for queue, at := range oldest {
		if _, configured := ages[queue]; !configured {
			queue = otherQueues
		}
		ages[queue] = max(ages[queue], now.Sub(at).Seconds())
	}
	paused, err := s.store.Paused(ctx)
	if err != nil {
		return nil, err
	}
	var found []prometheus.Metric
	for queue, age := range ages {
		found = append(found, gauge(oldestDesc, age, queue))
	}
	for _, queue := range s.queues() {
		value := 0.0
		if _, ok := paused[queue]; ok {
			value = 1
		}
		found = append(found, gauge(pausedDesc, value, queue))
	}
	return found, nil
}

// readTasks counts dead and pending rows. It leaves out finished rows: they are the great majority, and nobody waits
// for them.
// The dead are reported even if the pending rows are too many to be counted in time: there is an alert on dead tasks.
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
	maxUnhandledKinds = 100 // kinds with a figure of their own: rows of other programs may have any number of kinds
	otherKinds        = "other"
)

// readUnhandled reports the tasks that wait for a worker of their kind: a worker without metrics can't report them.
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
	// The figure of other kinds is always reported, so that the metric always exists.
	return append(found, gauge(unhandledDesc, float64(others), otherKinds, otherKinds)), nil
}

func (s *Survey) readBehind(ctx context.Context) ([]prometheus.Metric, error) {
	if s.cfg.Behind == nil {
		return nil, nil
	}
	n, err := s.cfg.Behind(ctx)
	if err != nil {
		return nil, err
	}
	return []prometheus.Metric{gauge(behindDesc, float64(n))}, nil
}

func (s *Survey) readProcesses(ctx context.Context) ([]prometheus.Metric, error) {
	if s.cfg.Processes == nil {
		return nil, nil
	}
	all, err := s.cfg.Processes(ctx)
	if err != nil {
		return nil, err
	}
	var found []prometheus.Metric
	for _, p := range all {
		found = append(found, gauge(processesDesc, float64(p.Processes), p.Role, p.State))
	}
	return found, nil
}

func (s *Survey) readOldestTransaction(ctx context.Context) ([]prometheus.Metric, error) {
	if s.cfg.OldestTransaction == nil {
		return nil, nil
	}
	age, known, err := s.cfg.OldestTransaction(ctx)
	if err != nil || !known {
		return nil, err
	}
	return []prometheus.Metric{gauge(oldestTxDesc, age.Seconds())}, nil
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

// readLag leaves out a queue while one of its partitions doesn't answer, such as a topic that is being created.
func (s *Survey) readLag(ctx context.Context) ([]prometheus.Metric, error) {
	if err := s.stream.Ping(ctx); err != nil {
		return nil, err
	}
	var found []prometheus.Metric
	for _, queue := range s.queues() {
		if n, err := s.stream.Lag(ctx, queue); err == nil {
			found = append(found, gauge(lagDesc, float64(n), queue))
		}
	}
	return found, nil
}

func gauge(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}
