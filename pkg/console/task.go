package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// Task is a task as operators see it.
type Task struct {
	ID          task.ID           `json:"task_id"`
	Kind        string            `json:"kind"`
	Owner       string            `json:"owner"`
	Subject     string            `json:"subject"`
	Labels      map[string]string `json:"labels,omitempty"`    // Console.Task alone reads them
	OrderKey    string            `json:"order_key,omitempty"` // as given, or the owner and the subject; empty for a task without order
	Group       string            `json:"group,omitempty"`     // whose follower waits for the task's end
	Queue       string            `json:"queue"`
	Shard       int               `json:"shard"`
	State       task.State        `json:"state"`
	DueAtMs     int64             `json:"due_at_ms"`
	RunAtMs     int64             `json:"run_at_ms"`
	Version     int64             `json:"version"`
	Attempt     int               `json:"attempt"`
	MaxAttempts int               `json:"max_attempts"`
	Payload     json.RawMessage   `json:"payload,omitempty"` // absent if it is no JSON
	LastError   string            `json:"last_error,omitempty"`
	CreatedAtMs int64             `json:"created_at_ms"`
	UpdatedAtMs int64             `json:"updated_at_ms"`
	FinishedAt  *int64            `json:"finished_at_ms,omitempty"`

	PayloadText string `json:"-"` // as the row has it, JSON or not; Console.Task decrypts it, if it has the key
}

// TaskOf returns the task of a row, without labels.
func TaskOf(row task.Task) Task {
	t := Task{
		ID: row.ID, Kind: row.Kind, Owner: row.Owner, Subject: row.Subject, OrderKey: transition.OrderText(row), Group: row.Group,
		Queue: row.Queue, Shard: row.Shard,
		State: row.State, DueAtMs: row.DueAt.UnixMilli(), RunAtMs: row.RunAt.UnixMilli(), Version: row.Version,
		Attempt: row.Attempt, MaxAttempts: row.MaxAttempts, LastError: row.LastError,
		CreatedAtMs: row.CreatedAt.UnixMilli(), UpdatedAtMs: row.UpdatedAt.UnixMilli(),
		FinishedAt: unixMs(row.FinishedAt), PayloadText: string(row.Payload),
	}
	if json.Valid(row.Payload) {
		t.Payload = row.Payload
	}
	return t
}

// unixMs returns nil for the zero time.
func unixMs(at time.Time) *int64 {
	if at.IsZero() {
		return nil
	}
	return new(at.UnixMilli())
}

// TaskLife is a task with its history.
type TaskLife struct {
	Task

	Ran     *Ran       `json:"ran,omitempty"` // of a done task, if its row says so
	History []Happened `json:"history"`
	Cut     bool       `json:"-"` // the history has older lines, which are left out
	// Meanwhile is what happened to the queue while the task was late, by more than a second: it was paused, limited, degraded.
	Meanwhile []Happened `json:"meanwhile,omitempty"`
}

// Happened is one line of a task's history.
type Happened struct {
	AtMs   int64  `json:"at_ms"`
	Event  string `json:"event"`
	Actor  string `json:"actor"`
	Detail string `json:"detail"`
}

func happenedOf(e protocol.Event) Happened {
	return Happened{e.At.UnixMilli(), e.Name, e.Actor, e.Detail}
}

// MaxHistory bounds the lines of one task's history.
const MaxHistory = 10_000

// Task reads a task with its labels and its history; task.ErrNotFound if there is none.
func (c *Console) Task(ctx context.Context, id task.ID) (TaskLife, error) {
	rows, err := c.store.Get(ctx, nil, []task.ID{id})
	if err != nil {
		return TaskLife{}, err
	}
	if len(rows) == 0 {
		return TaskLife{}, fmt.Errorf("task %s: %w", id, task.ErrNotFound)
	}
	lines, longer, err := c.history(ctx, id)
	if err != nil {
		return TaskLife{}, err
	}
	labels, err := c.store.Labels(ctx, []task.ID{id})
	if err != nil {
		return TaskLife{}, err
	}
	meanwhile, err := c.meanwhile(ctx, rows[0])
	if err != nil {
		return TaskLife{}, err
	}
	ran, err := c.ran(ctx, rows[0])
	if err != nil {
		return TaskLife{}, err
	}
	shown := TaskOf(rows[0])
	shown.Labels = labels[id]
	shown.PayloadText, shown.Payload = c.decrypt(shown.Kind, shown.Owner, shown.PayloadText)
	return TaskLife{Task: shown, Ran: ran, History: lifeOf(rows[0], lines), Cut: longer, Meanwhile: meanwhile}, nil
}

// meanwhile reads what happened to the queue of a task that is late, or was.
func (c *Console) meanwhile(ctx context.Context, row task.Task) ([]Happened, error) {
	to := row.FinishedAt
	if row.State == task.Pending {
		var err error
		if to, err = c.store.Now(ctx, nil); err != nil {
			return nil, err
		}
	}
	if to.Sub(transition.FiredFrom(row)) <= lateAfter {
		return nil, nil
	}
	events, err := c.store.QueueHistory(ctx, row.Queue, to)
	if err != nil {
		return nil, err
	}
	var happened []Happened
	for _, e := range during(events, transition.FiredFrom(row)) {
		happened = append(happened, happenedOf(e))
	}
	return happened, nil
}

// during returns the events from a moment on, and of the earlier ones the last limits, and the pause and the degradations that had
// not ended by then.
func during(events []protocol.Event, from time.Time) []protocol.Event {
	open := map[string]protocol.Event{}
	i := 0
	for ; i < len(events) && events[i].At.Before(from); i++ {
		e := events[i]
		what, _, _ := strings.Cut(e.Detail, ":") // which limit
		switch e.Name {
		case protocol.EventResumed:
			delete(open, protocol.EventPaused)
		case protocol.EventPaused:
			open[e.Name] = e
		case protocol.EventRecovered:
			delete(open, e.Actor)
		case protocol.EventDegraded:
			if from.Sub(e.At) <= store.DegradedFor { // else the worker has ended without a word
				open[e.Actor] = e
			}
		default:
			open[what] = e
		}
	}
	before := slices.SortedFunc(maps.Values(open), func(a, b protocol.Event) int { return a.At.Compare(b.At) })
	return append(before, events[i:]...)
}

// Labels reads the labels of up to task.MaxPerCall tasks; a task without any is left out.
func (c *Console) Labels(ctx context.Context, ids []task.ID) (map[task.ID]map[string]string, error) {
	return c.store.Labels(ctx, ids)
}

// history reads the newest lines about an id; longer says that older ones are left out.
func (c *Console) history(ctx context.Context, id task.ID) (lines []protocol.Event, longer bool, err error) {
	lines, err = c.store.History(ctx, id, MaxHistory+1)
	if longer = len(lines) > MaxHistory; longer {
		lines = lines[1:]
	}
	return lines, longer, err
}

// lifeOf adds the row's own facts to the lines: when the task was made, and how it ended.
func lifeOf(row task.Task, lines []protocol.Event) []Happened {
	life := []Happened{{AtMs: row.CreatedAt.UnixMilli(), Event: "scheduled", Actor: protocol.ActorService}}
	for _, e := range lines {
		life = append(life, happenedOf(e))
	}
	// A change whose transaction began before a failed attempt may have been recorded after that attempt.
	slices.SortStableFunc(life[1:], func(a, b Happened) int { return cmp.Compare(a.AtMs, b.AtMs) })
	if end, ok := endOf(row); ok && !slices.ContainsFunc(lines, func(e protocol.Event) bool { return ends(e, row) }) {
		life = append(life, end)
	}
	return life
}

// endOf returns the task's end according to its row.
func endOf(row task.Task) (Happened, bool) {
	end := Happened{AtMs: row.FinishedAt.UnixMilli(), Event: row.State.String(), Detail: row.LastError}
	switch row.State {
	case task.Done:
		end.Actor = protocol.ActorWorker
		end.Detail = row.FinishedAt.Sub(transition.FiredFrom(row)).Round(time.Millisecond).String() + " after it was due"
	case task.Cancelled, task.Dead:
	default:
		return end, false
	}
	return end, true
}

// ends reports whether a line records the row's end.
func ends(e protocol.Event, row task.Task) bool {
	return e.At.Equal(row.FinishedAt) && slices.Contains(
		[]string{protocol.EventCancelled, task.EventSkipped, task.EventDead, protocol.EventDiscarded}, e.Name)
}
