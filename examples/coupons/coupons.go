package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Remind is the payload of a reminder.
type Remind struct {
	Coupon int64 `json:"coupon"`
}

// CouponRemind reminds an owner that a coupon ends soon. It has a queue of its own, so that a flood of reminders delays
// no other tasks.
var CouponRemind = task.NewKind[Remind]("coupon.remind", task.Queue("reminders"))

// Coupon is a row of the table.
type Coupon struct {
	ID       int64  `db:"id"`
	Owner    string `db:"owner"`
	EndsMs   int64  `db:"ends_ms"`
	Reminded int    `db:"reminded"` // how often
}

// Coupons reminds owners a fixed time before their coupons end.
type Coupons struct {
	tasks  *schedule.Client
	before time.Duration
	called func(n int) // called after each batch of reminders, for the demonstration
}

// reminder returns the task of a coupon. The coupon's number is its key, so that scheduling it again moves it.
func (c *Coupons) reminder(coupon Coupon) task.Spec {
	number := strconv.FormatInt(coupon.ID, 10)
	at := time.UnixMilli(coupon.EndsMs).Add(-c.before)
	return CouponRemind.New(coupon.Owner, Remind{Coupon: coupon.ID}, task.At(at), task.KeyMove(number), task.Subject(number))
}

// Grant hands out up to a thousand coupons, with their reminders, in one transaction and few statements.
func (c *Coupons) Grant(ctx context.Context, coupons []Coupon) error {
	specs := make([]task.Spec, len(coupons))
	for i, coupon := range coupons {
		specs[i] = c.reminder(coupon)
	}
	return c.tasks.InTx(ctx, func(tx *schedule.Tx) error {
		if _, err := tx.ScheduleMany(ctx, specs); err != nil {
			return err
		}
		_, err := sqlx.NamedExecContext(ctx, tx, "INSERT INTO coupons (id, owner, ends_ms, reminded) VALUES (:id, :owner, :ends_ms, 0)", coupons)
		return err
	})
}

// Extend moves the coupon's end and its reminder. An owner who was already reminded gets another reminder.
func (c *Coupons) Extend(ctx context.Context, coupon Coupon, by time.Duration) error {
	coupon.EndsMs += by.Milliseconds()
	return c.tasks.InTx(ctx, func(tx *schedule.Tx) error {
		if _, err := tx.Schedule(ctx, c.reminder(coupon)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE coupons SET ends_ms = ? WHERE id = ?", coupon.EndsMs, coupon.ID)
		return err
	})
}

// Leave deletes all coupons of an owner who leaves, and cancels their reminders.
func (c *Coupons) Leave(ctx context.Context, owner string) (cancelled int, err error) {
	err = c.tasks.InTx(ctx, func(tx *schedule.Tx) error {
		tasks, err := tx.CancelOwner(ctx, owner, CouponRemind.Name())
		if err != nil {
			return err
		}
		cancelled = len(tasks)
		_, err = tx.ExecContext(ctx, "DELETE FROM coupons WHERE owner = ?", owner)
		return err
	})
	return cancelled, err
}

// Handlers returns the handler of reminders.
func (c *Coupons) Handlers() *worker.Mux {
	mux := worker.NewMux()
	worker.HandleBatch(mux, CouponRemind, c.remind)
	return mux
}

// remind writes one statement for all reminders of a batch. A coupon that was deleted is not in the table, and its owner
// is not reminded.
func (c *Coupons) remind(ctx context.Context, tx *worker.Tx, tasks []worker.Task[Remind]) error {
	ids := make([]int64, len(tasks))
	for i, t := range tasks {
		ids[i] = t.Payload.Coupon
	}
	query, args, err := sqlx.In("UPDATE coupons SET reminded = reminded + 1 WHERE id IN (?)", ids)
	if err != nil {
		return fmt.Errorf("remind of %d coupons: %w", len(ids), err)
	}
	if _, err := tx.ExecContext(ctx, query, args...); err != nil {
		return err
	}
	c.called(len(tasks))
	return nil
}
