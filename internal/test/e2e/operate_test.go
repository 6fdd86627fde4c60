package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// TestLeaderHandsOverWhenAsked has an operator ask: the next candidate leads within milliseconds after the leader saw it,
// and the one that resigned leads again when it is alone.
func TestLeaderHandsOverWhenAsked(t *testing.T) {
	t.Parallel()
	p := pipelinetest.SharedDeployment(t)
	first := p.Ready(t, "event")
	pipelinetest.Await(t, "the first to lead", func() bool { return first.Leads(t) })
	second := p.Ready(t, "event")
	resign := func() {
		t.Helper()
		code, said := p.Duetime(t, "leader", "resign", "event", "--yes")
		if code != 0 {
			t.Fatalf("exit code %d, said %q", code, said)
		}
		t.Log(strings.TrimSpace(said))
	}
	handOver := func(from, to pipelinetest.App) time.Duration {
		t.Helper()
		resign()
		pipelinetest.Await(t, "the other to lead", func() bool { return to.Leads(t) && !from.Leads(t) })
		took := lineTime(t, to, `"msg":"leading"`).Sub(lineTime(t, from, "resigning as an operator asked"))
		t.Logf("the hand-over took %v", took)
		return took
	}
	took, resigned := handOver(first, second), 1
	for ; took > time.Second && resigned < 3; resigned++ { // milliseconds on an idle machine; this one may have stood still
		handOver(second, first)
		took = handOver(first, second)
	}
	if took > time.Second {
		t.Errorf("the quickest hand-over took %v", took)
	}
	second.Stop(t)
	pipelinetest.Await(t, "the first to lead again", func() bool { return first.Leads(t) })
	resign()
	pipelinetest.Await(t, "the only one to lead again", func() bool { return first.Leads(t) })
	if n := first.Says("resigning as an operator asked"); n != resigned+1 {
		t.Errorf("resigned %d times, want %d: a request is for the terms up to it alone", n, resigned+1)
	}
}

// alive returns the processes that the tool lists, as "role, whether it leads, [queues]" or "role silent", and the hosts of the leaders
// that it shows.
func alive(t *testing.T, p pipelinetest.Deployment) (processes []string, leaders map[string]string) {
	t.Helper()
	var listed []struct {
		Role          string
		Epoch         int64
		Queues        []string
		Host, Version string
		PID           int
		State         string
	}
	var led []struct{ Name, Host string }
	for command, into := range map[string]any{"processes": &listed, "leader show": &led} {
		code, said := p.Duetime(t, append(strings.Fields(command), "--json")...)
		if code != 0 {
			t.Fatalf("%s: exit code %d, said %q", command, code, said)
		}
		pipelinetest.Must(t, json.Unmarshal([]byte(said), into))
	}
	for _, l := range listed {
		if l.Host == "" || l.Version == "" || l.PID == 0 {
			t.Errorf("the %s lacks a host, a version or a PID: %+v", l.Role, l)
		}
		if l.State == "alive" {
			processes = append(processes, fmt.Sprintf("%s %t%v", l.Role, l.Epoch > 0, l.Queues))
		} else {
			processes = append(processes, l.Role+" "+l.State)
		}
	}
	leaders = map[string]string{}
	for _, l := range led {
		leaders[l.Name] = l.Host
	}
	return processes, leaders
}

// TestProcessesAreListedWhileTheyLive kills and stops processes: the tool says which are silent, lists none that has stopped, and shows no
// leader where none is.
func TestProcessesAreListedWhileTheyLive(t *testing.T) {
	t.Parallel()
	p := pipelinetest.SharedDeployment(t)
	host, err := os.Hostname()
	pipelinetest.Must(t, err)
	await := func(what string, wantLeader string, want ...string) {
		t.Helper()
		var got []string
		var leaders map[string]string
		defer func() { t.Log(got, leaders) }()
		pipelinetest.Await(t, what, func() bool {
			time.Sleep(500 * time.Millisecond) // each look starts the tool twice
			got, leaders = alive(t, p)
			return slices.Equal(got, want) && leaders["event"] == wantLeader && leaders["daemon"] == ""
		})
	}
	event, worker := p.Ready(t, "event"), p.Ready(t, "worker")
	api := p.Ready(t, "api")
	p.Console(t)
	await("all processes", host, "api false[]", "console false[]", "event true[]", "worker false[default]")
	pipelinetest.Must(t, worker.Kill())
	await("the killed worker to be silent", host, "api false[]", "console false[]", "event true[]", "worker silent")
	api.Stop(t)
	if got, _ := alive(t, p); slices.Contains(got, "api false[]") {
		t.Errorf("an API that has stopped is listed: %v", got)
	}
	pipelinetest.Must(t, event.Kill())
	await("the killed leader not to lead", "", "console false[]", "event silent", "worker silent")
	second := p.Ready(t, "event")
	await("its successor", host, "console false[]", "event silent", "event true[]", "worker silent")
	second.Stop(t)
	if got, leaders := alive(t, p); leaders["event"] != "" {
		t.Errorf("a leader that has stopped is shown at %s; %v", leaders["event"], got)
	}
}

// lineTime is when the process last wrote such a line.
func lineTime(t *testing.T, p pipelinetest.App, text string) time.Time {
	t.Helper()
	var line struct{ Time time.Time }
	for _, said := range p.Lines() {
		if strings.Contains(said, text) {
			pipelinetest.Must(t, json.Unmarshal([]byte(said), &line))
		}
	}
	return line.Time
}

// service is a client of the deployment in this process, and what it says.
type service struct {
	*duetime.Client

	mu  sync.Mutex
	log strings.Builder
}

// newService opens a client of the deployment, with further queues.
func newService(t *testing.T, p pipelinetest.Deployment, queues ...string) *service {
	t.Helper()
	cfg := duetime.DefaultConfig()
	cfg.Queues = append(cfg.Queues, queues...)
	cfg.Namespace, cfg.MySQL.DSN = p.Namespace, duetime.DSN(p.DSN)
	cfg.Redis.Addrs, cfg.Kafka.Brokers = []string{p.Redis}, []string{p.Kafka}
	s := &service{}
	var err error
	s.Client, err = duetime.Open(cfg, duetime.WithLogger(slog.New(slog.NewTextHandler(s, nil))))
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = s.Close(context.WithoutCancel(t.Context())) })
	pipelinetest.Must(t, s.Ready(t.Context()))
	return s
}

// Write takes a line of the log.
func (s *service) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(line)
}

func (s *service) says(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.log.String(), text)
}

// work runs the mux until the test ends.
func (s *service) work(t *testing.T, mux *worker.Mux) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Work(ctx, mux) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Work: %v", err)
		}
	})
}

// TestPausedQueueOfARealDeployment pauses a queue: its tasks wait, keep their attempts, and all end after the resume; no
// hint is published again and again meanwhile.
func TestPausedQueueOfARealDeployment(t *testing.T) {
	t.Parallel()
	p := pipelinetest.SharedDeployment(t)
	p.Rules = append(p.Rules, "DUETIME_DAEMON__GRACE=100ms", "DUETIME_DAEMON__INTERVAL=100ms")
	event := p.Ready(t, "event")
	p.Ready(t, "daemon")
	client := newService(t, p)
	remind := task.NewKind[int]("e2e.remind")
	var done atomic.Int64
	mux := worker.NewMux()
	worker.Handle(mux, remind, func(context.Context, *worker.Tx, worker.Task[int]) error { done.Add(1); return nil })
	client.work(t, mux)
	schedule := func(n int) {
		t.Helper()
		for i := range n {
			_, err := client.Schedule(t.Context(), remind.New(fmt.Sprint("owner", i), i, task.In(time.Second)))
			pipelinetest.Must(t, err)
		}
	}
	ended := func() (n int) {
		t.Helper()
		pipelinetest.Must(t, client.DB().Get(&n, `SELECT COUNT(*) FROM duetime_tasks WHERE state = 1`))
		return n
	}
	schedule(5)
	pipelinetest.Await(t, "five tasks", func() bool { return ended() == 5 })
	ran := done.Load()

	if code, said := p.Duetime(t, "pause", "default", "--yes"); code != 0 {
		t.Fatalf("pause: exit code %d, said %q", code, said)
	}
	pipelinetest.Await(t, "the worker to obey", func() bool { return client.says("pause of a queue") == 1 })
	published := func() float64 { return event.Metric(t, "duetime_hints_published_total ") }
	first := published()
	schedule(50)
	pipelinetest.Await(t, "their hints to be out", func() bool { return published() >= first+50 })
	before := published()
	until := time.Now().Add(6 * time.Second) // sixty passes of the daemon, and beyond the worker's patience
	pipelinetest.Await(t, "time to pass", func() bool { return time.Now().After(until) })
	if n := published() - before; n > 0 {
		t.Errorf("%v hints were published again while paused", n)
	}
	if n := done.Load() - ran; n != 0 {
		t.Errorf("%d tasks ran while the queue was paused", n)
	}

	began := time.Now()
	if code, said := p.Duetime(t, "resume", "default"); code != 0 {
		t.Fatalf("resume: exit code %d, said %q", code, said)
	}
	pipelinetest.Await(t, "all tasks", func() bool { return ended() == 55 })
	t.Logf("all ended %v after the resume", time.Since(began))
	var charged int
	pipelinetest.Must(t, client.DB().Get(&charged, `SELECT COUNT(*) FROM duetime_tasks WHERE attempt > 0`))
	if charged != 0 {
		t.Errorf("%d tasks were charged", charged)
	}
	if code, v := p.Verify(t); code != 0 || v.Done != 55 || v.Pending+v.Dead+v.Cancelled != 0 {
		t.Errorf("verify: exit code %d, %+v", code, v)
	}
	if n := client.says("partitions assigned"); n != 1 {
		t.Errorf("partitions were assigned %d times, want once: the worker stays in its group", n)
	}
}

// TestShardRebuildOfARealDeployment takes markers away and waits until the daemon has set them again.
func TestShardRebuildOfARealDeployment(t *testing.T) {
	t.Parallel()
	p := pipelinetest.SharedDeployment(t)
	daemon := p.Ready(t, "daemon")
	for _, args := range [][]string{{"--all"}, {"3", "5"}} {
		code, said := p.Duetime(t, append([]string{"shard", "rebuild", "--yes"}, args...)...)
		if code != 0 || !strings.HasPrefix(said, "rebuilt ") {
			t.Errorf("%v: exit code %d, said %q", args, code, said)
		}
	}
	if n := daemon.Says(`"msg":"rebuild ended"`); n < 2 {
		t.Errorf("the daemon rebuilt %d times", n)
	}
}
