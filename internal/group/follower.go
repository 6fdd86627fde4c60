package group

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Follower is the task that follows the last member, as the group's row holds it.
type Follower struct {
	ID          task.ID           `json:"task_id"`
	Kind        string            `json:"kind"`
	Owner       string            `json:"owner"`
	Subject     string            `json:"subject,omitempty"`
	Queue       string            `json:"queue"`
	MaxAttempts int               `json:"max_attempts"`
	Payload     json.RawMessage   `json:"payload"`
	Labels      map[string]string `json:"labels,omitempty"`
	OrderKey    string            `json:"order_key,omitempty"` // as rows hold it
	Traceparent string            `json:"traceparent,omitempty"`
	AtMs        int64             `json:"at_ms,omitempty"` // its due time, in Unix ms; 0: InMs counts
	InMs        int64             `json:"in_ms,omitempty"` // how long after the group's end it is due
}

// FollowerError is an error of the follower in a call that makes a group.
type FollowerError struct{ Err error }

func (e FollowerError) Error() string { return "follower: " + e.Err.Error() }

// Unwrap returns the error without its place.
func (e FollowerError) Unwrap() error { return e.Err }

// NewFollower checks the spec of a group's follower as if the group ended now. It returns a FieldError for input outside the limits.
func NewFollower(name string, spec task.Spec, now time.Time) (Follower, error) {
	if spec.Key() != "" {
		return Follower{}, &task.FieldError{Field: "key", Problem: "must not be set: a group has one follower"}
	}
	row, err := spec.Resolve(now)
	if err != nil {
		return Follower{}, err
	}
	f := Follower{
		ID: row.ID, Kind: row.Kind, Owner: row.Owner, Subject: row.Subject, Queue: row.Queue, MaxAttempts: row.MaxAttempts,
		Payload: row.Payload, Labels: spec.Labels(), OrderKey: row.OrderKey, Traceparent: row.Traceparent,
	}
	if at, fixed := spec.At(); fixed {
		f.AtMs = at.UnixMilli()
	} else {
		in, _ := spec.In()
		f.InMs = max(0, ceilMs(in))
	}
	decoded, err := spec.Kind().Payload(row)
	if err != nil {
		return Follower{}, err
	}
	if _, err := withGroup(decoded, task.Group{}); err != nil {
		return Follower{}, err
	}
	largest, err := withGroup(row.Payload, task.Group{Name: name, Done: math.MaxInt32, Dead: math.MaxInt32, Cancelled: math.MaxInt32})
	if err != nil {
		return Follower{}, err
	}
	if len(largest) > task.MaxPayload {
		return Follower{}, &task.FieldError{Field: "payload", Problem: fmt.Sprintf(
			"must be at most %d bytes of JSON with the group that is added to it, and would have %d", task.MaxPayload, len(largest))}
	}
	return f, nil
}

// ceilMs rounds up to milliseconds, as due times are rounded.
func ceilMs(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// withGroup sets the payload's field "group".
func withGroup(payload json.RawMessage, g task.Group) (json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(payload, &fields); err != nil {
		return nil, &task.FieldError{Field: "payload", Problem: `must be a JSON object: the group's counts become its field "group"`}
	}
	if fields == nil { // of null
		fields = map[string]json.RawMessage{}
	}
	value, err := json.Marshal(task.Group{Name: g.Name, Done: g.Done, Dead: g.Dead, Cancelled: g.Cancelled})
	if err != nil {
		return nil, err
	}
	fields["group"] = value
	return json.Marshal(fields)
}

// Then reads the follower of a group's row.
func (r Row) Then() (f Follower, err error) {
	err = json.Unmarshal(r.Follower, &f)
	return f, err
}

// row is the follower's row when the group ends.
func (f Follower) row(g task.Group, now time.Time) (task.Task, error) {
	when := task.In(time.Duration(f.InMs) * time.Millisecond)
	if f.AtMs > 0 {
		when = task.At(time.UnixMilli(f.AtMs))
	}
	due, err := when.Due(now)
	if err != nil {
		return task.Task{}, err
	}
	payload, err := withGroup(f.Payload, g)
	if err != nil {
		return task.Task{}, err
	}
	return task.Task{
		ID: f.ID, Kind: f.Kind, Owner: f.Owner, Subject: f.Subject, Queue: f.Queue, MaxAttempts: f.MaxAttempts, Payload: payload,
		OrderKey: f.OrderKey, Traceparent: f.Traceparent, DueAt: due, RunAt: due, CreatedAt: now, UpdatedAt: now, State: task.Pending, Version: 1,
	}, nil
}

// end sums the parts up, and schedules the follower. The members' transaction commits whatever becomes of it.
func (w *writer) end(g *Row) error {
	parts, err := w.store.Parts(w.ctx, w.q, g.Name)
	if err != nil {
		return err
	}
	sum := SumOf(parts)
	f, unreadable := g.Then()
	now, blocked, err := w.store.NowAndBlocked(w.ctx, w.q, []string{f.Owner})
	if err != nil {
		return err
	}
	if now.After(w.now) {
		w.now = now // other transactions, which committed before, may have later moments than this one
	}
	g.Done, g.Dead, g.Cancelled, g.EndedAt = sum.Done, sum.Dead, sum.Cancelled, w.now
	switch {
	case unreadable != nil:
		g.Note = "its text can't be read: " + unreadable.Error()
	case blocked != "":
		g.Note = task.ErrOwnerBlocked.Error()
	default:
		if g.Note, err = w.follow(f, g.Group); err != nil {
			return err
		}
	}
	line := protocol.Event{At: w.now, Task: g.FollowerID, Name: protocol.EventFollows, Detail: fmt.Sprintf(
		"group %s: %d done, %d dead, %d cancelled", g.Name, g.Done, g.Dead, g.Cancelled)}
	if g.Note != "" {
		line.Task, line.Detail = task.ID{}, line.Detail+"; its follower was not scheduled: "+g.Note
	}
	w.out.Events = append(w.out.Events, line)
	return nil
}

// follow inserts the follower. The note says why there is none.
func (w *writer) follow(f Follower, g task.Group) (note string, err error) {
	row, err := f.row(g, w.now)
	if err != nil {
		return err.Error(), nil //nolint:nilerr // it is noted
	}
	stands, err := w.store.Insert(w.ctx, w.q, []task.Task{row})
	if err != nil {
		return "", err
	}
	if !stands[0].CreatedAt.Equal(row.CreatedAt) || stands[0].Kind != row.Kind {
		return "a task has its id", nil
	}
	var labels []protocol.LabelRow
	for name, value := range f.Labels {
		labels = append(labels, protocol.LabelRow{Task: f.ID, Name: name, Value: value})
	}
	if len(labels) > 0 {
		if err := w.store.InsertLabels(w.ctx, w.q, labels); err != nil {
			return "", err
		}
	}
	w.out.Made = append(w.out.Made, stands[0])
	return "", nil
}
