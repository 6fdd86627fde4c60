package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Expire is the payload of a task that ends an order.
type Expire struct {
	Order int64 `json:"order"`
}

// OrderExpire is declared once, for the side that schedules and for the side that runs.
var OrderExpire = task.NewKind[Expire]("order.expire", task.MaxAttempts(10))

// Shop takes orders and payments. An order that isn't paid in time expires.
type Shop struct {
	db             *sql.DB
	tasks          *schedule.Client
	paymentTimeout time.Duration
}

// Errors of Pay.
var (
	ErrNoOrder = errors.New("no such order")
	ErrExpired = errors.New("the order has expired")
)

// Place takes an order. The order and its end are one transaction: neither exists without the other.
func (s *Shop) Place(ctx context.Context, id int64, customer string) error {
	return s.inTx(ctx, func(tx *sql.Tx, tasks *schedule.Joined) error {
		number := strconv.FormatInt(id, 10)
		expiry, err := tasks.Schedule(ctx, OrderExpire.New(customer, Expire{Order: id}, task.In(s.paymentTimeout),
			task.Key("order "+number), task.Subject(number)))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO orders (id, customer, state, expiry) VALUES (?, ?, 'unpaid', ?)",
			id, customer, expiry.ID.String())
		return err
	})
}

// Pay marks the order as paid and cancels its end, in one transaction. After Pay has returned nil, the order can't
// expire. If it has expired, Pay returns ErrExpired.
func (s *Shop) Pay(ctx context.Context, id int64) error {
	return s.inTx(ctx, func(tx *sql.Tx, tasks *schedule.Joined) error {
		expiry, err := expiryOf(ctx, tx, id)
		if err != nil {
			return err
		}
		// The task first, the order second: the worker locks in this order too.
		if _, err := tasks.Cancel(ctx, expiry); errors.Is(err, task.ErrAlreadyDone) {
			return ErrExpired
		} else if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE orders SET state = 'paid' WHERE id = ? AND state = 'unpaid'", id)
		return err
	})
}

func expiryOf(ctx context.Context, tx *sql.Tx, id int64) (task.ID, error) {
	var text string
	err := tx.QueryRowContext(ctx, "SELECT expiry FROM orders WHERE id = ?", id).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return task.ID{}, ErrNoOrder
	}
	if err != nil {
		return task.ID{}, err
	}
	return task.ParseID(text)
}

// Handlers returns the shop's handlers.
func (s *Shop) Handlers() *worker.Mux {
	mux := worker.NewMux()
	worker.Handle(mux, OrderExpire, s.expire)
	return mux
}

// expire ends an order that is still unpaid. It commits together with the end of its task.
func (s *Shop) expire(ctx context.Context, tx *worker.Tx, t worker.Task[Expire]) error {
	_, err := tx.ExecContext(ctx, "UPDATE orders SET state = 'expired' WHERE id = ? AND state = 'unpaid'", t.Payload.Order)
	return err
}

const tries = 5

// inTx runs fn in the shop's own transaction, which duetime joins, and runs it again after a deadlock.
func (s *Shop) inTx(ctx context.Context, fn func(tx *sql.Tx, tasks *schedule.Joined) error) error {
	for try := 1; ; try++ {
		err := s.try(ctx, fn)
		if err == nil || try == tries || !schedule.IsRetryable(err) {
			return err
		}
	}
}

func (s *Shop) try(ctx context.Context, fn func(tx *sql.Tx, tasks *schedule.Joined) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	tasks := s.tasks.Join(tx)
	if err := fn(tx, tasks); err != nil {
		return err
	}
	return tasks.Commit(ctx) // instead of tx.Commit
}
