package console

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// nextTicks is how many ticks to come are shown of one recurrence.
const nextTicks = 5

// Recurrence is a recurrence as operators see it.
type Recurrence struct {
	ID          task.ID              `json:"recurrence_id"`
	Owner       string               `json:"owner"`
	Name        string               `json:"name"`
	State       task.RecurrenceState `json:"state"`
	Note        string               `json:"note,omitempty"` // why it is paused
	Timetable   string               `json:"timetable"`
	Policy      recur.Policy         `json:"policy"`
	Kind        string               `json:"kind"`
	Queue       string               `json:"queue"`
	Subject     string               `json:"subject"`
	MaxAttempts int                  `json:"max_attempts"`
	Payload     json.RawMessage      `json:"payload,omitempty"` // absent if it is no JSON
	Newest      *task.ID             `json:"newest_task_id,omitempty"`
	DueAtMs     *int64               `json:"due_at_ms,omitempty"` // of the newest task, when it was made
	Made        int64                `json:"made"`
	Skipped     int64                `json:"skipped"`
	CaughtUp    int64                `json:"caught_up"`
	CreatedAtMs int64                `json:"created_at_ms"`
	UpdatedAtMs int64                `json:"updated_at_ms"`

	PayloadText string `json:"-"` // as the row has it, JSON or not
}

// RecurrenceLife is a recurrence with its history and what is to come.
type RecurrenceLife struct {
	Recurrence

	NextMs  []int64    `json:"next_ms"` // ticks after that of the newest task, if it goes on as it is
	History []Happened `json:"history"`
	Cut     bool       `json:"-"` // the history has older lines, which are left out

	NewestDueMs *int64 `json:"newest_due_ms,omitempty"` // of the newest task as it stands: it may have been moved
}

// RecurrenceOf returns the recurrence of a row.
func RecurrenceOf(r task.Recurrence) Recurrence {
	out := Recurrence{
		ID: r.ID, Owner: r.Owner, Name: r.Name, State: r.State, Note: r.Note, Timetable: r.Timetable.String(), Policy: r.Policy,
		Kind: r.Kind, Queue: r.Queue, Subject: r.Subject, MaxAttempts: r.MaxAttempts, DueAtMs: unixMs(r.DueAt),
		Made: r.Made, Skipped: r.Skipped, CaughtUp: r.CaughtUp, CreatedAtMs: r.CreatedAt.UnixMilli(), UpdatedAtMs: r.UpdatedAt.UnixMilli(),
		PayloadText: string(r.Payload),
	}
	if !r.Newest.IsZero() {
		out.Newest = &r.Newest
	}
	if json.Valid(r.Payload) {
		out.Payload = r.Payload
	}
	return out
}

// RecurrenceFilter chooses recurrences; zero fields choose all.
type RecurrenceFilter struct {
	Owner, Kind string
	State       *task.RecurrenceState
	After       string // only those after this place of the list, as RecurrencePage.Next names it
	Limit       int    // of the page: 1 to MaxPage, default DefaultPage
}

// RecurrencePage is a part of a list, which is sorted by owner and name.
type RecurrencePage struct {
	Recurrences []Recurrence
	Next        string // behind which the next page begins; empty if this page is the last
}

// A place in the list has the owner and the name, encoded so that a shell and a URL take it as it is.
const placeMark = "{}" // between the two: neither can hold it

// Place is the recurrence's place in a list, as RecurrencePage.Next names it.
func (r Recurrence) Place() string {
	return base64.RawURLEncoding.EncodeToString([]byte(r.Owner + placeMark + r.Name))
}

func parsePlace(text string) (owner, name string, err error) {
	pair, err := base64.RawURLEncoding.DecodeString(text)
	owner, name, found := strings.Cut(string(pair), placeMark)
	if text != "" && (err != nil || !found || owner == "" || name == "" || strings.Contains(name, placeMark) || !utf8.Valid(pair)) {
		return "", "", errPlace
	}
	return owner, name, nil
}

// Recurrences reads a page of the recurrences that the filter chooses. A place in the list that is none is a *task.FieldError.
func (c *Console) Recurrences(ctx context.Context, f RecurrenceFilter) (RecurrencePage, error) {
	var err error
	if f.Limit, err = pageLimit(f.Limit); err != nil {
		return RecurrencePage{}, err
	}
	owner, name, err := parsePlace(f.After)
	if err != nil {
		return RecurrencePage{}, err
	}
	if err := cmp.Or(protocol.CheckBlanks("owner", f.Owner), protocol.CheckBlanks("kind", f.Kind)); err != nil {
		return RecurrencePage{}, err
	}
	rows, err := c.store.ListRecurrences(ctx, store.RecurrenceFilter{
		Owner: f.Owner, Kind: f.Kind, State: f.State, AfterName: [2]string{owner, name}, Limit: f.Limit + 1,
	})
	if err != nil {
		return RecurrencePage{}, err
	}
	recurrences, next := paged(rows, f.Limit, RecurrenceOf, func(r task.Recurrence) string { return RecurrenceOf(r).Place() })
	return RecurrencePage{recurrences, next}, nil
}

// Recurrence reads a recurrence in any state, with its history; task.ErrNoRecurrence if there is none.
func (c *Console) Recurrence(ctx context.Context, owner, name string) (RecurrenceLife, error) {
	r, found, err := c.store.Recurrence(ctx, c.store.DB(), owner, name)
	if err != nil {
		return RecurrenceLife{}, err
	}
	if !found {
		return RecurrenceLife{}, fmt.Errorf("%s of owner %s: %w", name, owner, task.ErrNoRecurrence)
	}
	lines, longer, err := c.history(ctx, r.ID)
	if err != nil {
		return RecurrenceLife{}, err
	}
	life := RecurrenceLife{Recurrence: RecurrenceOf(r), NextMs: []int64{}, History: []Happened{}, Cut: longer}
	life.PayloadText, life.Payload = c.decrypt(r.Kind, r.Owner, life.PayloadText)
	for _, e := range lines {
		life.History = append(life.History, happenedOf(e))
	}
	// A service writes its lines some time after its commit.
	slices.SortStableFunc(life.History, func(a, b Happened) int { return cmp.Compare(a.AtMs, b.AtMs) })
	if r.State <= task.RecurrencePaused {
		for _, tick := range r.Coming(nextTicks) {
			life.NextMs = append(life.NextMs, tick.UnixMilli())
		}
	}
	if r.Newest.IsZero() {
		return life, nil
	}
	newest, err := c.store.Get(ctx, nil, []task.ID{r.Newest})
	if err == nil && len(newest) > 0 {
		life.NewestDueMs = unixMs(newest[0].DueAt)
	}
	return life, err
}

// PauseRecurrence pauses a recurrence; the note says why. Its errors, and those of the other changes of a recurrence, are those
// of schedule.Tx: task.ErrNoRecurrence, task.ErrRunning.
func (c *Console) PauseRecurrence(ctx context.Context, owner, name, note string) (Recurrence, error) {
	return c.changeRecurrence(ctx, func(tx *schedule.Tx) (task.Recurrence, error) { return tx.PauseRecurrence(ctx, owner, name, note) })
}

// ResumeRecurrence ends the pause of a recurrence.
func (c *Console) ResumeRecurrence(ctx context.Context, owner, name string) (Recurrence, error) {
	return c.changeRecurrence(ctx, func(tx *schedule.Tx) (task.Recurrence, error) { return tx.ResumeRecurrence(ctx, owner, name) })
}

// StopRecurrence stops a recurrence.
func (c *Console) StopRecurrence(ctx context.Context, owner, name string) (Recurrence, error) {
	return c.changeRecurrence(ctx, func(tx *schedule.Tx) (task.Recurrence, error) { return tx.StopRecurrence(ctx, owner, name) })
}

// StopRecurrences stops all recurrences of an owner, and returns their number.
func (c *Console) StopRecurrences(ctx context.Context, owner string) (n int, err error) {
	_, err = c.changeRecurrence(ctx, func(tx *schedule.Tx) (task.Recurrence, error) {
		stopped, err := tx.StopRecurrences(ctx, owner)
		n = len(stopped)
		return task.Recurrence{}, err
	})
	return n, err
}

// RunRecurrence makes one more task of a recurrence, due now.
func (c *Console) RunRecurrence(ctx context.Context, owner, name string) (Task, error) {
	return c.change(ctx, func(tx *schedule.Tx) (task.Task, error) { return tx.RunRecurrence(ctx, owner, name) })
}

// RunRecurrenceOnce is RunRecurrence for a call that may be repeated: it makes one task with the id.
func (c *Console) RunRecurrenceOnce(ctx context.Context, owner, name string, id task.ID) (Task, error) {
	return c.change(ctx, func(tx *schedule.Tx) (task.Task, error) {
		return schedule.Inside(inside.Key{}, tx).RunRecurrenceOnce(ctx, owner, name, id)
	})
}

// changeRecurrence makes one change, and writes its lines of history in the same transaction.
func (c *Console) changeRecurrence(ctx context.Context, fn func(tx *schedule.Tx) (task.Recurrence, error)) (Recurrence, error) {
	var changed task.Recurrence
	err := c.clientTx(ctx, func(tx *schedule.Tx) (err error) {
		if changed, err = fn(tx); err != nil {
			return err
		}
		return record(ctx, tx)
	})
	if err != nil {
		return Recurrence{}, err
	}
	return RecurrenceOf(changed), nil
}
