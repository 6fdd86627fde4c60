package reconcile

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

// lossy is a world whose Redis answers with an error while away is called with true.
func lossy(t *testing.T) (w *world, away func(bool)) {
	t.Helper()
	w, mini := onMiniredis(t)
	return w, func(is bool) {
		if mini.SetError(""); is {
			mini.SetError("LOADING away")
		}
	}
}

// grows reports whether the term has made progress within so long.
func grows(told *worldtest.Term, within time.Duration) bool {
	before, _ := told.Seen()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if n, _ := told.Seen(); n > before {
			return true
		}
	}
	return false
}

// A daemon that has lost Redis must make way for one that has not, though passes without anything to mend go well.
func TestLostIndexIsNoProgress(t *testing.T) {
	t.Parallel()
	w, away := lossy(t)
	var told worldtest.Term
	stop := lead(t, w.Reconciler, 1, &told)
	pipelinetest.Await(t, "the markers", func() bool { return w.marked(t) })
	if !grows(&told, limit) {
		t.Error("no progress while all is well")
	}
	away(true)
	time.Sleep(time.Second) // what was under way has ended
	if grows(&told, 3*time.Second) {
		t.Error("progress while the index was away")
	}
	away(false)
	if !grows(&told, limit) {
		t.Error("no progress after the index was back")
	}
	pipelinetest.Must(t, stop())
}

// failing is an index of which these shards don't answer.
type failing struct {
	Index
	shards map[int]error
}

func (f failing) Marked(ctx context.Context, n int) ([]bool, error) {
	marked, err := f.Index.Marked(ctx, n)
	if len(f.shards) > 0 {
		err = errors.Join(err, &protocol.ShardsError{Shards: f.shards})
	}
	return marked, err
}

func TestSomeShardsAreProgressAndNoneIsNot(t *testing.T) {
	t.Parallel()
	w, _ := lossy(t)
	index, failed := w.index, map[int]error{}
	for n := range shards + 1 {
		w.index = failing{index, failed}
		var told worldtest.Term
		for _, p := range w.passes() {
			if p.proves {
				_, _, _ = w.runOnce(t.Context(), p, 1, &told)
			}
		}
		if got, _ := told.Seen(); (got > 0) != (n < shards) {
			t.Errorf("%d of %d shards don't answer: progress %d times", n, shards, got)
		}
		failed[n] = errors.New("away")
	}
}

// Another daemon would have to begin the rebuild anew. While the rebuild waits for a page, both servers are asked.
func TestLongRebuildIsProgress(t *testing.T) {
	t.Parallel()
	w, away := lossy(t)
	w.insert(t, many(3)...)
	held, release := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() { close(held) })
	w.index = &recorder{Index: w.index, before: func() { hold(); <-release }}
	var told worldtest.Term
	stop := lead(t, w.Reconciler, 1, &told)
	<-held
	for range 2 {
		if !grows(&told, limit) {
			t.Error("no progress while a rebuild takes long")
		}
	}
	away(true)
	time.Sleep(time.Second)
	if grows(&told, 3*time.Second) {
		t.Error("progress by a rebuild while the index was away")
	}
	away(false)
	close(release)
	pipelinetest.Await(t, "the markers", func() bool { return w.marked(t) })
	pipelinetest.Must(t, stop())
}

// While no daemon has Redis, their terms are short. Each of them goes on with what MySQL alone decides.
func TestTermThatBeginsWithoutTheIndexOperates(t *testing.T) {
	t.Parallel()
	w, away := lossy(t)
	w.run(t, new(rebuild).pass)
	rows := w.timers(t, "timer", 40)
	away(true)
	o := w.operate(t, task.Operation{Verb: task.VerbShift, By: 2 * time.Hour, Filter: task.Filter{Kind: "timer"}})
	stop := lead(t, w.Reconciler, 1, &worldtest.Term{})
	pipelinetest.Await(t, "the end of the operation", func() bool { return w.operation(t, o.ID).Over() })
	away(false)
	pipelinetest.Await(t, "the rows in the index", func() bool { return maps.Equal(w.truth(t), w.members(t)) })
	pipelinetest.Must(t, stop())
	w.wantOperated(t, o, rows)
}

// A rebuild that is under way holds operations up, as it does most passes.
func TestOperationWaitsForARebuild(t *testing.T) {
	t.Parallel()
	w, _ := lossy(t)
	w.timers(t, "timer", 40)
	o := w.operate(t, task.Operation{Verb: task.VerbCancel, Filter: task.Filter{Kind: "timer"}})
	w.filling.Store(true)
	pass := &operations{r: w.Reconciler}
	if res := w.run(t, pass.pass); res.More || w.operation(t, o.ID).Changed > 0 {
		t.Errorf("got %+v and %+v beside a rebuild, want a sleep and no change", res, w.operation(t, o.ID))
	}
	w.filling.Store(false)
	w.finish(t, o.ID)
}

// A term that begins while Redis is away does not know since when: what changed before the changed pass looks back is audited.
func TestTermThatBeginsInAnOutageAuditsAll(t *testing.T) {
	t.Parallel()
	w, away := lossy(t)
	b := new(rebuild)
	looks := func(when string, want int64) {
		t.Helper()
		w.run(t, b.pass)
		if n := w.alarms.Load(); n != want {
			t.Errorf("%s: %d alarms, want %d", when, n, want)
		}
	}
	w.unread.Store(true)
	looks("a term that begins", 0)
	away(true)
	if _, err := w.try(t.Context(), b.pass); err == nil {
		t.Error("the markers were read while the index was away")
	}
	away(false)
	looks("an outage within a term", 0)
	b = new(rebuild)
	w.unread.Store(true)
	away(true)
	if _, err := w.try(t.Context(), b.pass); err == nil {
		t.Error("the markers were read while the index was away")
	}
	away(false)
	looks("a term that began in an outage", 1)
	looks("its next look", 1)
}
