// Package clinic shows a service on GORM and duetime: an appointment has a reminder, which moves and ends with it. The
// clinic keeps its times in DATETIME columns of its own, in the zone of its DSN (loc and time_zone), and duetime does not
// change them.
package clinic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Appointment is the clinic's own row.
type Appointment struct {
	ID         int64
	Patient    string     `gorm:"size:64"`
	StartsAt   time.Time  `gorm:"type:datetime(3)"`
	RemindedAt *time.Time `gorm:"type:datetime(3)"`
	Reminder   task.ID    `gorm:"type:char(36)"` // an ID has Value and Scan
}

// Offer is a remark for the patient. The patient may have it already.
type Offer struct {
	Patient string `gorm:"primaryKey;size:64"`
	Text    string `gorm:"size:255"`
}

// Reminder is the payload of a task that reminds a patient.
type Reminder struct {
	Appointment int64 `json:"appointment"`
}

// Remind is declared once, for the side that schedules and for the side that runs.
var Remind = task.NewKind[Reminder]("appointment.remind")

// Clinic books and moves appointments.
type Clinic struct {
	db     *gorm.DB // the clinic's own handle
	tasks  *schedule.Client
	before time.Duration // how long before an appointment its patient is reminded
}

// New makes a clinic that reminds its patients this long before an appointment.
func New(db *gorm.DB, tasks *schedule.Client, before time.Duration) *Clinic {
	return &Clinic{db: db, tasks: tasks, before: before}
}

// Book writes an appointment, its reminder, and an offer in one transaction. If the patient has an offer already, only
// the nested transaction of the offer is rolled back.
func (c *Clinic) Book(ctx context.Context, a Appointment, offer string) error {
	return c.tasks.InTx(ctx, func(tx *schedule.Tx) error {
		reminder, err := tx.Schedule(ctx, Remind.New(a.Patient, Reminder{a.ID}, task.At(a.StartsAt.Add(-c.before))))
		if err != nil {
			return err
		}
		a.Reminder = reminder.ID
		db := on(ctx, c.db, tx)
		if err := db.Create(&a).Error; err != nil {
			return fmt.Errorf("book %d: %w", a.ID, err)
		}
		err = db.Transaction(func(nested *gorm.DB) error { return nested.Create(&Offer{a.Patient, offer}).Error })
		if err != nil && !errors.Is(err, gorm.ErrDuplicatedKey) {
			return fmt.Errorf("offer to %s: %w", a.Patient, err)
		}
		return nil
	})
}

// Move moves an appointment with its reminder, in a transaction that GORM begins and commits.
func (c *Clinic) Move(ctx context.Context, id int64, to time.Time) error {
	var joined *schedule.Joined
	err := c.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		joined = c.tasks.Join(tx.Statement.ConnPool)
		var a Appointment
		if err := tx.First(&a, id).Error; err != nil { // without a lock: the task is locked first, as the worker does
			return err
		}
		if _, err := joined.Reschedule(ctx, a.Reminder, task.At(to.Add(-c.before))); err != nil {
			return err
		}
		return tx.Model(&a).Update("starts_at", to).Error
	})
	if err != nil {
		return fmt.Errorf("move %d: %w", id, err)
	}
	return joined.Index(ctx) // GORM has committed; this puts the new time into the index
}

// Handlers returns the clinic's handlers.
func (c *Clinic) Handlers() *worker.Mux {
	mux := worker.NewMux()
	worker.Handle(mux, Remind, c.remind)
	return mux
}

// remind records that the patient was reminded. It commits together with the end of its task.
func (c *Clinic) remind(ctx context.Context, tx *worker.Tx, t worker.Task[Reminder]) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	return on(ctx, c.db, tx).Model(&Appointment{}).Where("id = ?", t.Payload.Appointment).Update("reminded_at", now).Error
}
