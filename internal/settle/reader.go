package settle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

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

// A reader is a transaction of somebody else, in which an owner's due tasks take effect before the caller reads. It keeps the
// protocol's steps, with these differences:
//
//   - It waits for rows that others have locked: what a worker runs at this moment must be done before the caller reads.
//   - Tasks run in the order of their times, each between savepoints. Before one that takes effect in order, the due tasks of its order key run,
//     whoever owns them. One that fails is undone and not charged: a worker meets it as if
//     nothing had happened.
//   - It runs nothing that a rollback would not undo, or that an operator or a limit holds back.
//   - What follows a commit (puts, metrics, events) follows the caller's.

const (
	readerTasks = 100
	readerTime  = time.Second // of one SettleDue, then it begins no further task
)

// reader is one call of SettleDue, SettleOrder or RunNow.
type reader struct {
	settler  *Settler
	tx       *sqlx.Tx
	changes  inside.Tx[*schedule.Tx] // of the handlers
	began    time.Time
	passed   map[task.ID]bool // tasks that this reader does not run, or no more
	runsLate bool             // also what is too late to be caught up with: the caller asks for it
	answered schedule.Settled
}

func (s *Settler) reader(caller *schedule.Tx) *reader {
	r := &reader{settler: s, began: time.Now(), passed: map[task.ID]bool{}}
	r.changes, r.tx = schedule.Inside(inside.Key{}, caller).Handlers()
	r.changes.Only(s.cfg.Kinds, s.cfg.BeforeSchedule)
	return r
}

// scope is what a reader settles: the tasks of an owner, by their next tries, or those of an order key, in their order.
type scope struct {
	lock    func(ctx context.Context, limit int) (protocol.Due, error) // the first ones that are due
	has     func(row *task.Task) bool
	compare func(a, b task.Task) int
}

func (r *reader) ofOwner(owner string) scope {
	return scope{
		lock: func(ctx context.Context, limit int) (protocol.Due, error) {
			return r.settler.store.LockDue(ctx, r.tx, owner, 0, limit)
		},
		has:     func(row *task.Task) bool { return row.Owner == owner },
		compare: func(a, b task.Task) int { return cmp.Or(a.RunAt.Compare(b.RunAt), a.ID.Compare(b.ID)) },
	}
}

func (r *reader) ofKey(key string) scope {
	return scope{
		lock: func(ctx context.Context, limit int) (protocol.Due, error) {
			return r.settler.store.LockDueInOrder(ctx, r.tx, key, 0, limit)
		},
		has:     func(row *task.Task) bool { return row.OrderKey == key },
		compare: transition.CompareDue,
	}
}

// SettleDue runs the owner's due tasks in the caller's transaction: see schedule.Tx.SettleDue.
func (s *Settler) SettleDue(ctx context.Context, caller *schedule.Tx, owner string) (schedule.Settled, error) {
	r := s.reader(caller)
	settled, err := r.answer(ctx, r.ofOwner(owner))
	if err != nil {
		return schedule.Settled{}, fmt.Errorf("settle what is due of owner %s: %w", owner, err)
	}
	return settled, nil
}

// SettleOrder runs the due tasks of an order key, as rows hold it, in the caller's transaction: see schedule.Tx.SettleOrder.
func (s *Settler) SettleOrder(ctx context.Context, caller *schedule.Tx, key string) (schedule.Settled, error) {
	r := s.reader(caller)
	settled, err := r.answer(ctx, r.ofKey(key))
	if err != nil {
		return schedule.Settled{}, fmt.Errorf("settle what is due of order key %q: %w", key, err)
	}
	return settled, nil
}

// answer settles all, and counts as left what a worker has put off: its time to run has not come.
func (r *reader) answer(ctx context.Context, what scope) (schedule.Settled, error) {
	lock, putOff := what.lock, 0
	what.lock = func(ctx context.Context, limit int) (protocol.Due, error) {
		due, err := lock(ctx, limit)
		putOff = due.PutOff
		return due, err
	}
	err := r.settleAll(ctx, what)
	r.answered.Left += putOff
	return r.answered, err
}

func (r *reader) settleAll(ctx context.Context, what scope) error {
	for {
		if more, err := r.round(ctx, what); err != nil || !more {
			return err
		}
	}
}

// RunNow runs one task in the caller's transaction, whatever its time: see schedule.Tx.RunNow.
func (s *Settler) RunNow(ctx context.Context, caller *schedule.Tx, id task.ID) (task.Task, error) {
	r := s.reader(caller)
	r.runsLate = true
	found, err := s.store.LockToRunNow(ctx, r.tx, id)
	switch {
	case err != nil:
		return task.Task{}, ledger.AsRunning(err)
	case len(found.Rows) == 0:
		return task.Task{}, task.ErrNotFound
	}
	locked := found.Rows[0]
	row := &found.Rows[0]
	if _, err := transition.Move(*row, found.Now, found.Now); err != nil {
		return *row, err // it has ended
	}
	if row.RunAt.After(found.Now) {
		row.RunAt = found.Now
	}
	if row.DueAt.After(found.Now) { // else it was promised for before, and keeps its place in the order
		row.DueAt = found.Now
	}
	t := r.begin(ctx, found, transition.CompareDue)
	m := t.order[0]
	m.stands = locked
	switch {
	case m.verdict.result == resultBlocked:
		return *row, task.ErrOwnerBlocked
	case r.passed[id] || m.verdict.next != nil:
		return *row, schedule.ErrNotHere
	}
	if head, err := r.headOf(t, m); err != nil {
		return *row, err
	} else if head != nil {
		return *row, fmt.Errorf("%w: %s of kind %s and owner %s", schedule.ErrBehind, head.ID, head.Kind, head.Owner)
	}
	if err := r.settle(t, m); err != nil {
		return *row, err
	}
	if err := r.answered.Failed[id]; err != nil {
		return *row, err
	}
	if r.answered.Left > 0 {
		return *row, schedule.ErrNotHere
	}
	for written := range t.ledger.Written(0) {
		if written.ID == id {
			row = written
		}
	}
	return *row, nil
}

// round runs what is due, and reports whether more is due by then.
func (r *reader) round(ctx context.Context, what scope) (more bool, err error) {
	limit := readerTasks + len(r.passed)
	due, err := what.lock(ctx, limit)
	if err != nil || len(due.Rows) == 0 {
		return false, ledger.AsRunning(err)
	}
	t := r.begin(ctx, due, what.compare)
	settled := false
	for _, m := range t.order {
		if r.passed[m.row.ID] || m.stage != stageWaiting && m.verdict.next == nil {
			continue // or a handler of this round has moved or cancelled it
		}
		if r.answered.Done >= readerTasks || time.Since(r.began) > readerTime || t.guard.Traced {
			r.answered.More = true
			return false, nil
		}
		head, err := r.headOf(t, m)
		switch {
		case err != nil:
			return false, err
		case head != nil && !r.passed[head.ID] && !head.RunAt.After(due.Now): // perhaps of another owner
			err := r.settleAll(ctx, r.ofKey(m.row.OrderKey))
			return err == nil && !r.answered.More, err
		case head != nil:
			r.passed[m.row.ID] = true
			r.answered.Left++
			continue
		}
		mark := t.ledger.Mark()
		if err := r.settle(t, m); err != nil {
			return false, err
		}
		settled = true
		if err := r.wakeBehind(t, m); err != nil {
			return false, err
		}
		for row := range t.ledger.Written(mark) {
			if row.State == task.Pending && what.has(row) && !row.RunAt.After(due.Now) {
				return true, nil // it may come before the next one
			}
		}
	}
	if len(due.Rows) < limit {
		return settled && due.PutOff > 0, nil // a handler may have ended or moved some of these: they are counted once more
	}
	r.answered.More = len(r.passed) >= readerTasks
	return !r.answered.More, nil
}

// headOf returns the first task of m's order key, if that comes before m; nil for none.
func (r *reader) headOf(t *transaction, m *member) (*protocol.Head, error) {
	if m.row.OrderKey == "" || m.stage != stageWaiting {
		return nil, nil //nolint:nilnil // There is none.
	}
	heads, err := r.settler.store.Heads(t.ctx, r.tx, []task.ID{m.row.ID}, []task.ID{m.row.ID})
	if err != nil || len(heads) == 0 || !transition.IsBefore(heads[0].Task, m.row) {
		return nil, err
	}
	return &heads[0], nil
}

// wakeBehind gives a try at once to the task that was put off behind m, if m has ended: it is due, and takes effect in this transaction too.
func (r *reader) wakeBehind(t *transaction, m *member) error {
	if m.row.OrderKey == "" || r.passed[m.row.ID] {
		return nil
	}
	heads, err := r.settler.store.Heads(t.ctx, r.tx, []task.ID{m.row.ID}, nil)
	if err != nil || len(heads) == 0 || !transition.WaitsBehind(heads[0].Task) {
		return err
	}
	found, err := r.settler.store.LockToRunNow(t.ctx, r.tx, heads[0].ID)
	if err != nil {
		return ledger.AsRunning(err)
	}
	return t.ledger.Wake(t.ctx, found.Rows, t.lockedAt)
}

// begin makes the members of a round, in their order.
func (r *reader) begin(ctx context.Context, due protocol.Due, compare func(a, b task.Task) int) *transaction {
	s := r.settler
	t := &transaction{
		settler: s, batch: &batch{settler: s, careful: true}, ctx: ctx, tx: r.tx, changes: r.changes, ledger: r.changes.Ledger(),
		members: map[task.ID]*member{}, newest: map[task.ID]bool{}, ran: map[*Handler]int{},
		began: time.Now(), lockedAt: due.Now, answered: time.Now(), runsLate: r.runsLate,
	}
	t.ledger.SetNow(due.Now)
	for _, row := range due.Rows {
		bar := due.Bars[row.ID]
		if bar != protocol.OwnerBlocked {
			t.changes.AssumeUnblocked([]string{row.Owner})
		}
		h := hold.FoundHint(row, due.Now, s.cfg.Patience)
		h.Suspect, h.Lane = false, hold.LaneSuspect // a caller is no suspect's, and needs no lane of its own
		t.judge(h, row, bar)
		m := t.members[row.ID]
		t.order = append(t.order, m)
		if r.leaves(m, due.Held[row.ID]) && !r.passed[row.ID] {
			r.passed[row.ID] = true
			r.answered.Left++
		}
	}
	slices.SortFunc(t.order, func(a, b *member) int { return compare(a.row, b.row) })
	return t
}

// leaves reports whether the task is left to a worker.
func (r *reader) leaves(m *member, held bool) bool {
	if m.verdict.next != nil {
		return m.verdict.result != resultSkipped && m.verdict.result != resultBlocked
	}
	_, limited := r.settler.cfg.Limits[m.row.Queue]
	return m.stage != stageWaiting || m.handler.Form == Outside || held || limited
}

// settle gives one task its end, or undoes what its handler did.
func (r *reader) settle(t *transaction, m *member) error {
	var p recurrence.Progress
	if id, _, tick := m.row.Tick(); tick { // before its handler locks rows of the service
		locked, err := t.settler.store.LockRecurrences(t.ctx, t.tx, []task.ID{id})
		if err != nil {
			return err
		}
		p.Know(locked)
	}
	if m.verdict.next != nil {
		if err := t.save(m); err != nil {
			return err
		}
		p.Ended(m.row, m.row.UpdatedAt)
		return t.ledger.Advance(t.ctx, &p, t.stamp())
	}
	t.asOf = m.row.RunAt
	t.changes.AsOf(t.asOf)
	before, name := t.checkpoint(), statement.NewSavepoint()
	if err := t.savepoint("SAVEPOINT " + name); err != nil {
		return err
	}
	if err := t.call([]*member{m}); err != nil {
		if err := r.blame(t, err); err != nil {
			return err
		}
		if err := t.savepoint("ROLLBACK TO SAVEPOINT " + name); err != nil {
			return err
		}
		t.rewind(before)
		r.pass(m, err)
		return nil
	}
	if err := t.savepoint("RELEASE SAVEPOINT " + name); err != nil {
		return err
	}
	if err := t.markDone(t.ctx); err != nil {
		return err
	}
	if m.stage == stageMarked {
		p.Ended(m.row, t.lockedAt)
	}
	if t.ledger.ChangedRecurrences() {
		p.Know(nil)
	}
	if err := t.ledger.Advance(t.ctx, &p, t.stamp()); err != nil {
		return err
	}
	r.answered.Done++
	r.follow(t, m)
	return nil
}

// blame returns nil if the handler failed and the transaction still stands.
func (r *reader) blame(t *transaction, cause error) error {
	switch {
	case errors.Is(cause, errAbandoned):
		t.ledger.LeaveBusy()
		return cause
	case t.ctx.Err() != nil:
		return t.ctx.Err()
	case t.endedEarly: // by a statement that may have committed what was done before
		return fmt.Errorf("%w: %w", ledger.ErrCommitUnknown, cause)
	case t.conflict:
		return cause
	}
	if _, err := t.settler.store.Now(t.ctx, t.tx); err != nil {
		return fmt.Errorf("after a handler's %q: %w", cause.Error(), err)
	}
	return nil
}

// pass leaves a task to a worker whose handler did not end it.
func (r *reader) pass(m *member, cause error) {
	r.passed[m.row.ID] = true
	if _, snoozed := errors.AsType[SnoozeError](cause); snoozed {
		r.answered.Left++
		return
	}
	if r.answered.Failed == nil {
		r.answered.Failed = map[task.ID]error{}
	}
	r.answered.Failed[m.row.ID] = cause
}

// follow counts and reports the task after the caller's commit.
func (r *reader) follow(t *transaction, m *member) {
	s, row := r.settler, m.row
	for written := range t.ledger.Written(0) {
		if written.ID == row.ID {
			row = *written
		}
	}
	t.ledger.Then(func() {
		s.metrics.count(row.Kind, resultRead)
		s.metrics.observeLag(row.Kind, max(0, t.stamp().Sub(m.firedFrom())))
		if s.cfg.OnEvents != nil {
			s.cfg.OnEvents([]Event{{Name: task.EventDone, Task: row}})
		}
	})
}
