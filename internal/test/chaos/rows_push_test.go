package chaos_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const (
	pushTimeout  = 3 * time.Second  // of a request; the endpoint hangs for longer
	pushAway     = 8 * time.Second  // how long the endpoint is away
	pushSuddenly = 10               // how often it dies besides, each time for a moment
	pushBack     = 25 * time.Second // a probe within 5 s, twice if the endpoint fails it by 500; a wait of half the outage; a retry
	pushBeside   = 10 * time.Second // the game has another queue, and feels nothing but a busy machine
	pushSecret   = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// pushRow has tasks that are delivered by HTTP, beside the game.
func pushRow() entry {
	r := &receiver{}
	return entry{
		n: 82, fault: fmt.Sprintf("an endpoint that tasks are delivered to by HTTP: killed, frozen for %v, killed %d times more",
			pushAway, pushSuddenly),
		alone: true, setup: setup{servers: r.open}, run: func(t *testing.T, d *drill) { t.Helper(); endpointFalls(t, d, r) },
	}
}

// receiver is the place of the endpoint's process, with what outlives it: its address and its file.
type receiver struct {
	*pipelinetest.Proc

	binary, addr, file string
}

// open starts the endpoint, and has the workers deliver to it.
func (r *receiver) open(t *testing.T, w *world) {
	t.Helper()
	dir := t.TempDir()
	r.binary, r.addr = pipelinetest.Build(t, "./internal/test/chaos/receiver"), pipelinetest.Address(t)
	r.file = filepath.Join(dir, "received")
	r.start(t)
	w.Config = filepath.Join(dir, "duetime.yaml")
	pipelinetest.Must(t, os.WriteFile(w.Config, fmt.Appendf(nil, `
queues: [default, push]
deliver:
  allow: [127.0.0.1]
  kinds:
    chaos.order: {url: "http://%s/orders", queue: push, secrets: %s, timeout: %v}
`, r.addr, pushSecret, pushTimeout), 0o600))
}

func (r *receiver) start(t *testing.T) {
	t.Helper()
	r.Proc = pipelinetest.Run(t, r.binary, nil, r.addr, r.file, pushSecret)
	r.WaitLine(t, "listening")
}

func (r *receiver) kill(t *testing.T) {
	t.Helper()
	pipelinetest.Must(t, r.Kill())
}

// awaitEffect waits until the endpoint has acted and not answered yet.
func (r *receiver) awaitEffect(t *testing.T) {
	t.Helper()
	file, err := os.Open(r.file)
	pipelinetest.Must(t, err)
	defer func() { _ = file.Close() }()
	pipelinetest.Await(t, "an effect", func() bool {
		end, err := file.Seek(0, io.SeekEnd)
		pipelinetest.Must(t, err)
		text := make([]byte, min(end, 512)) // of the last lines
		_, err = file.ReadAt(text, end-int64(len(text)))
		pipelinetest.Must(t, err)
		return bytes.LastIndex(text, []byte(`{"what":"effect"`)) == bytes.LastIndexByte(text, '{')
	})
}

// endpointFalls has the endpoint die and hang while its tasks are scheduled, moved and cancelled. Its tasks are done once it is
// back, and the game never feels it.
func endpointFalls(t *testing.T, d *drill, r *receiver) {
	t.Helper()
	s := openShop(t, d.DSN)
	s.trade()
	d.also = func(v *verdict) { d.judgePushes(t, v, s, r) }
	d.await(t, "orders to be done", time.Minute, func() bool { return d.inState(t, orderKind, done) > 50 })
	d.endpointAway(t, r, "killed", func() {
		r.kill(t)
		d.endpointStays(t, r)
		r.start(t)
	})
	d.endpointAway(t, r, "frozen", func() {
		pipelinetest.Must(t, r.Freeze())
		d.endpointStays(t, r)
		pipelinetest.Must(t, r.Thaw())
	})
	d.endpointAway(t, r, "killed again and again", func() {
		for range pushSuddenly {
			time.Sleep(pushAway / pushSuddenly)
			r.awaitEffect(t)
			r.kill(t)
			r.start(t)
		}
	})
	s.close(t)
	d.await(t, "all orders to end", time.Minute+d.slack, func() bool { return d.inState(t, orderKind, pending) == 0 })
}

// endpointStays lets the endpoint be away until each worker has felt it.
func (d *drill) endpointStays(t *testing.T, r *receiver) {
	t.Helper()
	time.Sleep(pushAway)
	d.await(t, "each worker's breaker to open", time.Minute, func() bool { return d.openBreakers(t, r) == len(d.workers) })
}

// openBreakers counts the workers that keep the endpoint's tasks waiting.
func (d *drill) openBreakers(t *testing.T, r *receiver) (n int) {
	t.Helper()
	for _, w := range d.workers {
		n += int(w.Metric(t, `duetime_push_breaker_open{endpoint="`+r.addr+`"}`))
	}
	return n
}

// endpointAway plays one fault. The game must not feel it, and what was due by its end is done within pushBack.
func (d *drill) endpointAway(t *testing.T, r *receiver, name string, away func()) {
	t.Helper()
	var end int64
	d.fault(t, name, pushBeside, func() { away(); end = d.clock() })
	d.await(t, name+": its orders to be done", pushBack+d.slack+30*time.Second, func() bool {
		return d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE kind = ? AND state = 0 AND due_at <= ?`, orderKind, end) == 0
	})
	last := int64(d.count(t, `SELECT COALESCE(MAX(finished_at), 0) FROM duetime_tasks
		WHERE kind = ? AND state = 1 AND due_at <= ?`, orderKind, end))
	healed := time.Duration(max(last-end, 0)) * time.Millisecond
	o := outcome{name: name + ", its own tasks", within: pushBack, healed: healed}
	d.outcomes = append(d.outcomes, o)
	if o.healed > o.within+d.slack {
		t.Errorf("%s: its tasks were done %v after its end, want within %v", name, o.healed, o.within)
	}
	d.await(t, name+": the breakers to close", pushBack+d.slack+30*time.Second, func() bool { return d.openBreakers(t, r) == 0 })
}
