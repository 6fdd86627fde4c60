package reconcile

import (
	"errors"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

func TestPhantomNewerVersionIsReplaced(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		row := w.insert(t, pending("ann", time.Hour))[0]
		phantom := w.moved(t, row, 2*time.Hour) // put, and then its transaction rolled back
		w.put(t, phantom)
		w.put(t, row)
		w.wantStanding(t, "a writer's put of the truth", row, both(phantom))
		w.run(t, w.auditRows().pass)
		w.wantStanding(t, "after the audit", row, both(row))
	})
}

func TestDatabaseRestoredBehindTheIndex(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		rows := w.insert(t, pending("ann", time.Hour), pending("bob", sec(30)), pending("cid", 2*time.Hour))
		w.put(t, w.moved(t, rows[0], 2*time.Hour), w.moved(t, rows[1], 5*time.Hour), w.moved(t, rows[2], sec(-5)))
		lost := pending("dan", time.Hour) // scheduled after the backup was taken
		w.put(t, lost)
		w.run(t, (&lookahead{r: w.Reconciler}).pass)
		w.wantStanding(t, "a row due soon, after the look-ahead", rows[1], both(rows[1]))
		w.run(t, w.auditRows().pass)
		w.run(t, w.auditIndex().pass)
		w.wantTruth(t)
	})
}

// If rows were read before the index, a stale row would overwrite a newer entry for good.
func TestRowMovedBetweenTheReadsIsNotOverwritten(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		row := w.insert(t, pending("ann", time.Hour))[0]
		var next task.Task
		w.between(func() {
			next = w.save(t, w.moved(t, row, 2*time.Hour))
			w.put(t, next)
		})
		// compare is called once: mend's next try would hide a wrong repair of the first.
		repairs, _, err := w.compare(t.Context(), w.layout(t), []task.Task{row}, w.clock, putAlways)
		pipelinetest.Must(t, err)
		_, err = w.index.Repair(t.Context(), repairs)
		pipelinetest.Must(t, err)
		w.wantStanding(t, "after the repair", row, both(next))
	})
}

// The row's own put came before ours, or never: only reading the row once more can tell.
func TestRowMovedAfterTheReadsIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		row := w.insert(t, pending("ann", time.Hour))[0]
		w.between(func() { w.between(func() { row = w.save(t, w.moved(t, row, 2*time.Hour)) }) }) // after the second call
		pipelinetest.Must(t, w.mend(t.Context(), "tested", []task.Task{row}, w.clock, putAlways))
		w.wantStanding(t, "after mending", row, both(row))
	})
}

// Rows in neither set are filled in as they were read. Later changes are found when the rows are read once more.
func TestRowEndedBeforeItIsFilledInLeavesNoGhost(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		rows := w.insert(t, pending("ann", time.Hour), pending("ann", time.Hour), pending("bob", time.Hour))
		w.between(func() { // after the standings were read
			w.put(t, w.save(t, w.cancelled(t, rows[0]))) // drops nothing
			w.save(t, w.moved(t, rows[1], 2*time.Hour))  // and was never put
		})
		pipelinetest.Must(t, w.mendUnlike(t.Context(), "tested", rows, w.clock))
		w.wantTruth(t)
	})
}

func TestStandingMovedSinceItWasReadIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		row := w.insert(t, pending("ann", time.Hour))[0]
		w.between(func() { w.put(t, w.moved(t, row, 2*time.Hour)) }) // a version that never commits
		pipelinetest.Must(t, w.mend(t.Context(), "tested", []task.Task{row}, w.clock, putAlways))
		w.wantStanding(t, "after mending", row, both(row))
	})
}

func TestRestlessTaskIsNotCalledMended(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		row := w.insert(t, pending("ann", time.Hour))[0]
		due := 2 * time.Hour
		var stir func()
		stir = func() {
			due += time.Minute
			w.put(t, w.moved(t, row, due))
			w.between(stir)
		}
		w.between(stir)
		err := w.mend(t.Context(), "tested", []task.Task{row}, w.clock, putAlways)
		if !errors.Is(err, errStillMoving) {
			t.Errorf("got %v, want %v", err, errStillMoving)
		}
		w.hooked = nil
	})
}

func TestFlyingHintIsLeftAlone(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		rows := w.insert(t, pending("ann", sec(-1)), pending("bob", sec(0.04)))
		w.put(t, rows...)
		w.publish(t, rows...)
		w.run(t, (&lookahead{r: w.Reconciler}).pass)
		w.run(t, w.auditRows().pass)
		w.run(t, (&changed{r: w.Reconciler}).pass)
		for _, row := range rows {
			w.wantStanding(t, "published", row, task.Standing{Due: task.NoScore, Owner: task.ScoreOf(row)})
		}
	})
}

// A long pass must not put rows that were published since it began.
func TestHintThatFlewDuringALongPassIsLeftAlone(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		row := w.insert(t, pending("ann", sec(5)))[0]
		w.between(func() { // the row was seen absent
			w.put(t, row)
			w.publish(t, row)
			w.now = base.Add(sec(5))
		})
		w.run(t, w.auditRows().pass)
		w.wantStanding(t, "published", row, task.Standing{Due: task.NoScore, Owner: task.ScoreOf(row)})
	})
}
