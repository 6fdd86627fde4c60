package settle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/recurrence"
	"github.com/duetime/duetime/internal/statement"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// beginAhead is how long before the hints' moment their transaction begins. BEGIN takes about this time. On SQLite the
// transaction keeps all others from writing, so it must not begin earlier.
const beginAhead = 300 * time.Microsecond

// stage is the state of a member within one transaction.
type stage int

const (
	stageDecided stage = iota // its verdict is known, and it does not run
	stageWaiting              // due; its handler has not run
	stageRan                  // its handler has run; the row doesn't say done yet
	stageMarked               // its row says done
)

// member is a hint with its row in one transaction, and the verdict if the transaction commits.
type member struct {
	hint    *hold.Hint
	row     task.Task // as locked, or as the transaction changes it
	stands  task.Task // as the transaction has locked or written it
	handler *Handler
	stage   stage
	verdict verdict
	took    time.Duration // the call of its handler
	written bool          // row is what the transaction has committed
}

// transaction is one try of a batch, with its findings. After a rollback only what blame has recorded in the hints is
// kept.
type transaction struct {
	settler *Settler
	batch   *batch
	ctx     context.Context //nolint:containedctx // Ends with this transaction.
	tx      *sqlx.Tx
	changes inside.Tx[*schedule.Tx] // of which handlers get theirs
	ledger  *ledger.Tx              // what they changed
	guard   statement.Guard         // of their own statements

	began     time.Time // when the hints' moment came, on the local clock
	lockedAt  time.Time // when the rows were locked, on the database's clock
	answered  time.Time // when the answer to the lock came, on the local clock
	startedAt time.Time // when the first handler began, on the database's clock as learnt; zero before

	members     map[task.ID]*member
	transitions []*member         // members with a transition that needs no handler
	order       []*member         // members to run, by due time and id
	spent       time.Duration     // time of handlers
	ran         map[*Handler]int  // tasks of each
	full        bool              // of as many as one of them allows
	span        trace.SpanContext // of the last call of a handler

	standing   protocol.Pauses      // of the members
	paused     []protocol.Pause     // by handlers of this transaction
	unrun      []*member            // charged beforehand, and left
	blocked    map[string]task.Task // by order key: the first of its members that does not end in this transaction
	successors []task.Task          // that wait behind others, and are the first of their order keys once this transaction has committed
	succeeded  map[task.ID]bool     // members whose successors these are

	newest      map[task.ID]bool    // members that are the newest tasks of recurrences, which are locked
	recurrences recurrence.Progress // what their ends make

	wrote      bool
	committing bool // all steps are through
	conflict   bool // rows that were to be marked done had changed
	endedEarly bool // a statement has ended the transaction

	asOf     time.Time // of the task that runs for a reader; zero for a worker
	runsLate bool      // for a reader: see there
	prepared func()    // follows the commit of a step that must be committed before handlers run
}

// transact runs one transaction, by the steps of the package comment.
func (b *batch) transact(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a transaction that an abandoned handler keeps busy
	b.forgetCalls()
	t := &transaction{
		settler: b.settler, batch: b, ctx: ctx, members: map[task.ID]*member{},
		newest: map[task.ID]bool{}, ran: map[*Handler]int{},
	}
	t.sleepUntil(beginAhead)
	_, err := ledger.Transact(ctx, b.settler.store, b.settler.cfg.Hooks, t.steps)
	switch {
	case errors.Is(err, errNothing): // verdicts without a change hold after a rollback too
	case err != nil:
		return t.readAnswer(err)
	case t.prepared != nil:
		t.prepared()
		return errRetryNow
	default:
		b.settler.metrics.settling.Observe(time.Since(t.began).Seconds())
	}
	t.apply()
	return nil
}

// forgetCalls forgets which handlers an earlier transaction called.
func (b *batch) forgetCalls() {
	b.called = false
	for _, h := range b.hints {
		h.Call.Version = 0
	}
}

// steps are what the transaction does, which began just before the hints' moment: at the moment it locks the rows.
func (t *transaction) steps(began *sqlx.Tx) (*ledger.Tx, error) {
	t.tx, t.changes = began, schedule.Inside(inside.Key{}, schedule.NewTx(began, t.settler.store))
	t.changes.Only(t.settler.cfg.Kinds, t.settler.cfg.BeforeSchedule)
	t.ledger = t.changes.Ledger()
	t.sleepUntil(0)
	t.began = time.Now()
	err := t.lock()
	if err == nil {
		err = t.work()
	}
	switch {
	case errors.Is(err, errPrepared):
		return t.ledger, nil
	case err != nil:
		return t.ledger, err
	case !t.wrote:
		return t.ledger, errNothing
	}
	t.committing = true
	return t.ledger, nil
}

// sleepUntil sleeps until a time before the moment of the batch's first hint: the other hints are due then too.
func (t *transaction) sleepUntil(before time.Duration) {
	untilMoment := t.batch.hints[0].LookAt.Sub(t.settler.clock.Now())
	t.batch.sleeper.Sleep(min(untilMoment, hold.TakeAhead) - before)
}

// lock locks the rows that are free, in id order, and decides by each row.
func (t *transaction) lock() error {
	byID := map[task.ID][]*hold.Hint{}
	ids := make([]task.ID, 0, len(t.batch.hints))
	for _, h := range t.batch.hints {
		if byID[h.ID] == nil {
			ids = append(ids, h.ID)
		}
		byID[h.ID] = append(byID[h.ID], h)
	}
	slices.SortFunc(ids, task.ID.Compare)
	rows, bars, now, err := t.settler.store.LockToRun(t.ctx, t.tx, ids)
	if err != nil {
		return fmt.Errorf("lock batch of %d: %w", len(ids), err)
	}
	t.lockedAt, t.answered = now, time.Now()
	if t.standing, err = t.pausesOf(rows); err != nil {
		return err
	}
	var unblocked []string // owners
	for _, row := range rows {
		t.judge(t.pick(byID, row.ID), row, bars[row.ID])
		delete(byID, row.ID)
		if row.State == task.Pending && bars[row.ID] != protocol.OwnerBlocked {
			unblocked = append(unblocked, row.Owner)
		}
	}
	t.changes.AssumeUnblocked(unblocked)
	if t.leaveElsewhere() {
		return errRetryNow
	}
	if err := t.lockRecurrences(); err != nil {
		return err
	}
	return t.judgeAbsent(byID)
}

// leaveElsewhere takes tasks that other workers are about to run out of the batch, and reports whether the transaction is to
// begin anew without them. It would keep their rows locked while handlers of other tasks run.
func (t *transaction) leaveElsewhere() bool {
	left := map[*hold.Hint]bool{}
	for _, m := range t.members {
		if m.verdict.elsewhere {
			left[m.hint] = true
		}
	}
	if len(left) == 0 || len(left) == len(t.members) {
		return false
	}
	for _, m := range t.members {
		if left[m.hint] {
			t.applyToHint(m)
		}
	}
	t.batch.hints = slices.DeleteFunc(slices.Clone(t.batch.hints), func(h *hold.Hint) bool { return left[h] })
	return true
}

// pick returns one of a task's hints. The others, of other versions, are looked at in a later transaction.
func (t *transaction) pick(byID map[task.ID][]*hold.Hint, id task.ID) *hold.Hint {
	hs := byID[id]
	for _, other := range hs[1:] {
		other.LookAt = t.settler.clock.Now()
	}
	return hs[0]
}

// judgeAbsent decides about hints whose rows were not locked: another transaction has locked the row, or there is no row.
func (t *transaction) judgeAbsent(byID map[task.ID][]*hold.Hint) error {
	if len(byID) == 0 {
		return nil
	}
	rows, err := t.settler.store.Get(t.ctx, t.tx, slices.Collect(maps.Keys(byID)))
	if err != nil {
		return fmt.Errorf("look for %d locked tasks: %w", len(byID), err)
	}
	for _, row := range rows {
		m := &member{hint: t.pick(byID, row.ID), row: row, stands: row}
		m.verdict.holdUntil(t.settler.clock.Now().Add(hold.RetryInterval), m.hint.Lane)
		m.hint.Dropped = m.hint.Found && m.hint.Charge.State == hold.Uncharged // whoever has locked the row is at work on it
		m.hint.Looks++
		t.members[row.ID] = m
		delete(byID, row.ID)
	}
	for id := range byID {
		h := t.pick(byID, id)
		m := &member{hint: h, row: task.Task{ID: id, Kind: h.Kind}}
		m.verdict.settle(resultMissing)
		t.members[id] = m
	}
	return nil
}

// stamp returns the time of transitions that happen now, on the database's clock: never before the rows were locked.
func (t *transaction) stamp() time.Time {
	return t.lockedAt.Add(time.Since(t.answered).Truncate(time.Millisecond))
}

// work runs the steps between the locks and the commit.
func (t *transaction) work() error {
	if err := t.keepOrder(); err != nil {
		return err
	}
	if err := t.chargeSuspects(); err != nil {
		return err
	}
	if err := t.save(t.transitions...); err != nil {
		return err
	}
	for _, m := range t.members {
		if m.stage == stageWaiting {
			t.order = append(t.order, m)
		}
	}
	slices.SortFunc(t.order, func(a, b *member) int { return transition.CompareDue(a.row, b.row) })
	if err := t.run(); err != nil {
		return err
	}
	if err := t.markDone(t.ctx); err != nil {
		return t.blameUnmarked(err)
	}
	if err := t.advance(); err != nil {
		return err
	}
	if err := t.savePauses(); err != nil {
		return err
	}
	return t.recordHistory()
}

// save writes the new rows of members.
func (t *transaction) save(ms ...*member) error {
	if len(ms) == 0 {
		return nil
	}
	t.wrote = true
	changes := collect(ms, func(m *member) transition.Change { return transition.Change{Before: m.stands, After: m.row} })
	var lines []protocol.Event
	for _, m := range ms {
		if line, ok := m.event(); ok {
			lines = append(lines, line)
		}
		m.stands = m.row
	}
	return t.ledger.Save(t.ctx, changes, lines)
}

// markDone marks done, in one statement, the rows of members that have run. It is also called before a handler reads or
// changes tasks: race 2.
func (t *transaction) markDone(ctx context.Context) error {
	var ran []*member
	for _, m := range t.order {
		if m.stage == stageRan {
			ran = append(ran, m)
		}
	}
	if len(ran) == 0 {
		return nil
	}
	t.wrote = true
	now, endedAt := t.stamp(), t.settler.clock.Now()
	done := collect(ran, func(m *member) transition.Change {
		finished := transition.Finish(m.row, now)
		finished.Ran = t.ranOf(m, endedAt)
		return transition.Change{Before: m.stands, After: finished}
	})
	if err := t.ledger.Save(ctx, done, nil); err != nil {
		t.conflict = true
		return fmt.Errorf("mark %d tasks done: %w", len(ran), err)
	}
	for _, m := range ran {
		m.stage = stageMarked
	}
	return nil
}

// readAnswer reads why the transaction failed. If the answer to COMMIT was lost, the next look at the rows tells whether it took
// effect.
func (t *transaction) readAnswer(err error) error {
	if !errors.Is(err, ledger.ErrCommitUnknown) || t.prepared == nil && !t.committing {
		return err
	}
	if t.committing {
		for _, h := range t.batch.hints {
			h.CommitUnknown = true
			h.Looks++
		}
	}
	if unknown := t.settler.cfg.OnUnknown; unknown != nil { // nothing else puts what handlers have made
		unknown(t.ledger)
	}
	if t.settler.store.Unavailable(err) {
		return err
	}
	return fmt.Errorf("%w: %w", errAskRows, err)
}

// collect returns what of each member.
func collect[T any](ms []*member, what func(*member) T) []T {
	all := make([]T, len(ms))
	for i, m := range ms {
		all[i] = what(m)
	}
	return all
}

func rowOf(m *member) task.Task   { return m.row }
func idOf(m *member) task.ID      { return m.row.ID }
func hintOf(m *member) *hold.Hint { return m.hint }

func sortByID(ms []*member) {
	slices.SortFunc(ms, func(a, b *member) int { return a.row.ID.Compare(b.row.ID) })
}
