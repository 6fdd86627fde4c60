package protocoltest

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/dispatch"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/reconcile"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/streamtest"
	"github.com/duetime/duetime/internal/test/worldtest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
)

// scene is the world of one script. Its processes are run by hand: dispatchers and daemons pass by pass, the worker batch by
// batch. Tasks are called by their names in the script, and times are told since its start.
type scene struct {
	*system
	base time.Time
	log  *stream.Kafka

	names    map[task.ID]string
	ids      map[string]task.ID
	versions map[string]task.Task // by "t1 v2": what was written, or was to be
	last     task.ID
	scripted map[string]string // by task: what its handler does

	leaders map[string][]pass
	daemons map[string]map[string]pass
	workers map[string]*process
	read    []protocol.Hint // by the worker, last

	progress bool // of the leader's term, since its pass began

	mu     sync.Mutex
	said   []string
	armed  map[string][]string // by call: verbs that run when it is made
	calls  map[string]int
	valves map[string]string // by queue: what Kafka does with its hints
	muted  chan struct{}     // closed when Kafka answers again
	held   map[task.ID]bool  // rows that somebody else has locked

	mysqlAway bool            // for the daemon
	forever   context.Context // ends with the scene
}

type pass = func(context.Context) (loop.Result, error)

func newScene(t *testing.T, memory *worldtest.MemoryRedis, shards int) *scene {
	s := &scene{
		system: newSystem(t, onSQLite(t), memory, shards), base: time.Now(),
		names: map[task.ID]string{}, ids: map[string]task.ID{}, versions: map[string]task.Task{}, scripted: map[string]string{},
		leaders: map[string][]pass{}, daemons: map[string]map[string]pass{}, workers: map[string]*process{},
		armed: map[string][]string{}, calls: map[string]int{}, valves: map[string]string{}, muted: make(chan struct{}),
		held: map[task.ID]bool{},
	}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() {
		for _, p := range s.workers {
			p.end()
		}
		stop()
		time.Sleep(time.Minute) // calls to Kafka that are under way end, or the bubble would panic
	})
	s.forever = ctx
	s.log = streamtest.New(stream.Config{Namespace: "protocol", Queues: []string{"default", "bad"}, Partitions: 4, Now: time.Now})
	pipelinetest.Must(t, s.log.Ensure(t.Context()))
	s.worker = s.newWorker(engine.Config{}, &process{})
	for shard := range s.shards {
		token, err := s.index.BeginRebuild(ctx, shard)
		pipelinetest.Must(t, err)
		_, err = s.index.EndRebuild(ctx, shard, token)
		pipelinetest.Must(t, err)
	}
	return s
}

// elect <leader> [limit=<entries>] [lead=<duration>] makes a dispatcher that leads under a new epoch. It knows nothing of earlier ones.
func elect(s *scene, words []string) {
	plain, named := options(words)
	limit, _ := strconv.Atoi(named["limit"])
	lead, _ := time.ParseDuration(named["lead"])
	d, err := dispatch.New(dispatch.Config{
		Now: time.Now, Logger: slog.New(teller{s}), Limit: limit, Lead: lead,
		Layout: func(context.Context) (protocol.Layout, error) { return s.layout(), nil },
	}, wiredIndex{s.index, s}, wiredStream{s.log, s})
	pipelinetest.Must(s.t, err)
	s.leaders[plain[0]] = d.Passes(s.newEpoch(), term{s}, s.shards)
}

// appoint <daemon> makes a daemon that leads under a new epoch.
func appoint(s *scene, words []string) {
	r, err := reconcile.New(reconcile.Config{
		Lookahead: time.Minute, Logger: slog.New(teller{s}),
		Layout: func(context.Context) (protocol.Layout, error) { return s.layout(), nil },
	}, wiredStore{s.store, s, &process{}}, wiredIndex{s.index, s}, wiredStream{s.log, s})
	pipelinetest.Must(s.t, err)
	epoch, err := s.store.Take(s.t.Context(), "daemon")
	pipelinetest.Must(s.t, err)
	s.daemons[words[0]] = r.Passes(epoch, term{s})
}

func (s *scene) layout() protocol.Layout {
	return protocol.Layout{Shards: s.shards, ShardsEver: s.shards}
}

// term tells when a leader is fenced.
type term struct{ s *scene }

func (t term) Fenced(stored int64) { t.s.say("fenced by %d", stored) }
func (t term) Progress()           { t.s.progress = true }

// told are the messages of the log that scripts show.
var told = []string{"drift found", "hint passed over", "queue in trouble", "pass went on without"}

// teller is a log that tells what scripts show.
type teller struct{ s *scene }

func (t teller) Enabled(context.Context, slog.Level) bool { return true }
func (t teller) WithAttrs([]slog.Attr) slog.Handler       { return t }
func (t teller) WithGroup(string) slog.Handler            { return t }
func (t teller) Handle(_ context.Context, r slog.Record) error {
	for _, text := range told {
		if strings.HasPrefix(r.Message, text) {
			t.s.say("%s", r.Message)
		}
	}
	return nil
}

// called runs the verbs that wait for this call of a process.
func (s *scene) called(call string) {
	s.mu.Lock()
	s.calls[call]++
	s.calls["any"]++
	var lines []string
	for _, name := range []string{call, fmt.Sprintf("%s#%d", call, s.calls[call]), fmt.Sprintf("any#%d", s.calls["any"])} {
		lines = append(lines, s.armed[name]...)
		delete(s.armed, name)
	}
	s.mu.Unlock()
	for _, line := range lines {
		said := s.do(line)
		s.say("during %s: %s", call, line)
		for _, text := range said {
			s.say("  %s", text)
		}
	}
}

// name gives a task its name.
func (s *scene) name(name string, id task.ID) {
	s.names[id], s.ids[name], s.last = name, id, id
}

// nextSpec makes a spec by next whose id comes behind all others: batches go by id, and ids of one millisecond are in no order.
func (s *scene) nextSpec(next func() task.Spec) task.Spec {
	for {
		if spec := next(); spec.ID().Compare(s.last) > 0 {
			return spec
		}
	}
}

// since tells a time as scripts write it.
func (s *scene) since(at time.Time) string {
	text := at.Sub(s.base).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = strings.TrimSuffix(text, zero[1:])
		}
	}
	if text[0] == '-' {
		return text
	}
	return "+" + text
}

// moment reads a time as scripts write it.
func (s *scene) moment(text string) time.Time {
	d, err := time.ParseDuration(text)
	pipelinetest.Must(s.t, err)
	return s.base.Add(d)
}
