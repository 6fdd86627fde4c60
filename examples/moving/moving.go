// Package moving takes a service's timers to duetime while the service runs: from a table that cron scans, and from
// messages that another system holds. docs/MIGRATING.md tells the order of the steps.
//
// The row's state is what both sides share: whoever comes first ends a trial, and the other one finds it ended.
package moving

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Tables are those of the service. A second bill for a trial would be a doubled effect.
var Tables = []string{
	`CREATE TABLE trials (
		id BIGINT PRIMARY KEY, customer VARCHAR(64) NOT NULL, ends_at BIGINT NOT NULL, state VARCHAR(16) NOT NULL)`,
	"CREATE TABLE bills (trial BIGINT NOT NULL, at BIGINT NOT NULL)",
}

// ErrEnded is the answer of Extend for a trial that has ended.
var ErrEnded = errors.New("the trial has ended")

// Trial is the payload of TrialEnd.
type Trial struct {
	ID int64 `json:"id"`
}

// The kinds of the service's tasks.
var (
	TrialEnd = task.NewKind[Trial]("trial.end")
	Report   = task.NewKind[struct{}]("usage.report")
)

// execer is a *sql.Tx of the old code, or the *worker.Tx of a handler.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// end is the effect. It answers false if the trial has ended, or has not come to its end.
func end(ctx context.Context, tx execer, id int64, now time.Time) (bool, error) {
	result, err := tx.ExecContext(ctx,
		"UPDATE trials SET state = 'ended' WHERE id = ? AND state = 'open' AND ends_at <= ?", id, now.UnixMilli())
	if err != nil {
		return false, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return false, err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO bills (trial, at) VALUES (?, ?)", id, now.UnixMilli())
	return err == nil, err
}

// Service is the new version of the service.
type Service struct{ tasks *schedule.Client }

// NewService returns a service on the client's database.
func NewService(tasks *schedule.Client) *Service { return &Service{tasks} }

// Start begins a trial. The trial and its end are one transaction.
func (s *Service) Start(ctx context.Context, id int64, customer string, endsAt time.Time) error {
	return s.tasks.InTx(ctx, func(tx *schedule.Tx) error {
		t, err := tx.Schedule(ctx, endOf(id, customer, endsAt))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO trials VALUES (?, ?, ?, 'open')", id, customer, t.DueAt.UnixMilli())
		return err
	})
}

// Extend gives a trial another end, or answers ErrEnded. A trial of the old version gets its task here, if it has none yet.
func (s *Service) Extend(ctx context.Context, id int64, customer string, endsAt time.Time) error {
	return s.tasks.InTx(ctx, func(tx *schedule.Tx) error {
		t, err := tx.Schedule(ctx, endOf(id, customer, endsAt))
		if err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, "UPDATE trials SET ends_at = ? WHERE id = ? AND state = 'open'", t.DueAt.UnixMilli(), id)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, ErrEnded)
		}
		return nil
	})
}

// endOf makes the trial's task, or moves it: the key is the trial.
func endOf(id int64, customer string, endsAt time.Time) task.Spec {
	number := strconv.FormatInt(id, 10)
	return TrialEnd.New(customer, Trial{id}, task.At(endsAt), task.KeyMove(number), task.Subject(number))
}

// Handlers returns the service's handlers.
func Handlers() *worker.Mux {
	mux := worker.NewMux()
	worker.Handle(mux, TrialEnd, func(ctx context.Context, tx *worker.Tx, t worker.Task[Trial]) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		if ended, err := end(ctx, tx, t.Payload.ID, now); ended || err != nil {
			return err
		}
		var endsAt int64
		err = tx.QueryRowContext(ctx, "SELECT ends_at FROM trials WHERE id = ? AND state = 'open'", t.Payload.ID).Scan(&endsAt)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // the old version was first
		}
		if err == nil { // the old version has moved the row alone
			_, err = tx.Reschedule(ctx, t.ID, task.At(time.UnixMilli(endsAt)))
		}
		return err
	})
	return mux
}

// Backfill makes the tasks that open trials lack, and moves those that the old version has left behind, a page at a time.
// It answers how many trials it found so. Once the old version is gone, run it until it answers 0: then each open trial
// has its task.
func (s *Service) Backfill(ctx context.Context) (found int, err error) {
	var page []struct {
		ID       int64  `db:"id"`
		Customer string `db:"customer"`
		EndsAt   int64  `db:"ends_at"`
	}
	err = s.tasks.InTx(ctx, func(tx *schedule.Tx) error {
		page = page[:0] // InTx may run this again
		err := tx.SelectContext(ctx, &page, `SELECT trials.id, trials.customer, trials.ends_at FROM trials
			LEFT JOIN duetime_pending AS pending ON pending.owner = trials.customer AND pending.kind = 'trial.end'
				AND pending.subject = CAST(trials.id AS CHAR)
			WHERE trials.state = 'open' AND (pending.id IS NULL OR pending.due_ms <> trials.ends_at AND trials.ends_at > ?)
			ORDER BY trials.id LIMIT 500`, time.Now().UnixMilli())
		if err != nil {
			return err
		}
		specs := make([]task.Spec, len(page))
		for i, trial := range page {
			specs[i] = endOf(trial.ID, trial.Customer, time.UnixMilli(trial.EndsAt))
		}
		_, err = tx.ScheduleMany(ctx, specs)
		return err
	})
	return len(page), err
}

// Recur begins the usage report on working days. The scheduler of before has the ticks until then.
func (s *Service) Recur(ctx context.Context, from time.Time) error {
	_, err := s.tasks.Recur(ctx, "usage report", recur.Cron("0 9 * * MON-FRI", "Europe/Berlin"),
		Report.Recurring("billing", struct{}{}), recur.Policy{Start: from})
	return err
}

// Message is what another system holds for later.
type Message struct {
	ID       string // the other system's: a message's id, a job's, a trigger's name
	Customer string
	Trial    int64
	Due      time.Time
}

// Adopt makes a task of a message, and may be repeated: the other system may forget the message once Adopt has answered
// nil. It answers false if the message has its task already, done or not.
func (s *Service) Adopt(ctx context.Context, m Message) (made bool, err error) {
	spec := TrialEnd.New(m.Customer, Trial{m.Trial}, task.At(m.Due), task.Once("adopted "+m.ID))
	t, err := s.tasks.Schedule(ctx, spec)
	return err == nil && spec.Outcome(t) == task.Made, err
}
