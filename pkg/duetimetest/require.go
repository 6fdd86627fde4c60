package duetimetest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Want is a condition on a task, besides its kind and its owner.
type Want struct {
	text string
	// unmet says how the task fails the condition; empty if it doesn't.
	unmet func(row row, now time.Time) string
}

// DueAt wants the task to be due at this moment, rounded as due times are.
func DueAt(at time.Time) Want {
	return Want{text: "due at " + clock(at), unmet: func(row row, _ time.Time) string {
		at, err := task.At(at).Due(at)
		return unless(err == nil && row.DueAt.Equal(at), "is due at "+clock(row.DueAt))
	}}
}

// DueIn wants the task to be due after this duration, counted from the database's present time, within the tolerance.
func DueIn(d, tolerance time.Duration) Want {
	return Want{text: fmt.Sprintf("due in %v ± %v", d, tolerance), unmet: func(row row, now time.Time) string {
		in := row.DueAt.Sub(now)
		return unless((in-d).Abs() <= tolerance, "is due in "+in.String())
	}}
}

// DueBetween wants the task to be due between the two moments, both included.
func DueBetween(from, to time.Time) Want {
	return Want{text: "due between " + clock(from) + " and " + clock(to), unmet: func(row row, _ time.Time) string {
		return unless(!row.DueAt.Before(from) && !row.DueAt.After(to), "is due at "+clock(row.DueAt))
	}}
}

// Subject wants the task to have this subject.
func Subject(subject string) Want {
	return Want{text: fmt.Sprintf("subject %q", subject), unmet: func(row row, _ time.Time) string {
		return unless(row.Subject == subject, fmt.Sprintf("has subject %q", row.Subject))
	}}
}

// Payload wants the task to have this payload: the same JSON, in any order of its fields, as its kind's codec decodes it.
func Payload[P any](payload P) Want {
	text, err := json.Marshal(payload)
	return Want{text: "payload " + string(text), unmet: func(row row, _ time.Time) string {
		if err != nil {
			return "can't be compared with a payload that has no JSON: " + err.Error()
		}
		var want, got any
		same := json.Unmarshal(text, &want) == nil && json.Unmarshal(row.payload, &got) == nil && reflect.DeepEqual(want, got)
		return unless(same, "has payload "+string(row.payload))
	}}
}

// Queue wants the task to be on this queue.
func Queue(queue string) Want {
	return Want{text: fmt.Sprintf("queue %q", queue), unmet: func(row row, _ time.Time) string {
		return unless(row.Queue == queue, fmt.Sprintf("is on queue %q", row.Queue))
	}}
}

// Label wants the task to have this label, among others.
func Label(name, value string) Want {
	return Want{text: fmt.Sprintf("label %s=%s", name, value), unmet: func(row row, _ time.Time) string {
		return unless(row.labels[name] == value, fmt.Sprintf("has labels %q", protocol.LabelsText(row.labels)))
	}}
}

func unless(ok bool, problem string) string {
	if ok {
		return ""
	}
	return problem
}

// RequireScheduled fails the test unless the owner has a pending task of the kind that meets all wants. It returns that
// task; of several, the one with the earliest run time. The failure lists the owner's pending tasks, and what is wrong
// with each.
func RequireScheduled[P any](t testing.TB, db DB, kind task.Kind[P], owner string, wants ...Want) worker.Task[P] {
	t.Helper()
	l := look(t, db, owner, kind.Info())
	for _, row := range l.rows {
		if row.ofKind && len(l.unmet(row, wants)) == 0 {
			return decoded(t, kind, row.Task)
		}
	}
	t.Fatalf("duetimetest: %s has no pending %s\n%s", owner, wanted(kind.Name(), wants), l.list(kind.Name(), wants))
	return worker.Task[P]{}
}

// RequireNotScheduled fails the test if the owner has a pending task of the kind that meets all wants; without wants, any
// task of the kind.
func RequireNotScheduled[P any](t testing.TB, db DB, kind task.Kind[P], owner string, wants ...Want) {
	t.Helper()
	l := look(t, db, owner, kind.Info())
	for _, row := range l.rows {
		if row.ofKind && len(l.unmet(row, wants)) == 0 {
			t.Fatalf("duetimetest: %s has a pending %s, want none\n%s", owner, wanted(kind.Name(), wants), l.list("", nil))
		}
	}
}

// Scheduled returns the owner's pending tasks of the kind in the order of their run times, at most task.MaxPerCall+1 of
// them.
func Scheduled[P any](t testing.TB, db DB, kind task.Kind[P], owner string) []worker.Task[P] {
	t.Helper()
	var out []worker.Task[P]
	for _, row := range look(t, db, owner, kind.Info()).rows {
		if row.ofKind {
			out = append(out, decoded(t, kind, row.Task))
		}
	}
	return out
}

// row is a pending task with its labels.
type row struct {
	task.Task

	ofKind  bool // which is looked for, under any of its names
	labels  map[string]string
	payload []byte // in clear, if it is of that kind
}

// listing is an owner's pending tasks of all kinds at one moment of the database's clock.
type listing struct {
	rows []row
	now  time.Time
}

func look(t testing.TB, db DB, owner string, kind task.KindInfo) listing {
	t.Helper()
	ctx, cancel := inDeadline(t)
	defer cancel()
	l, err := read(ctx, opened(t, db), owner)
	if err != nil {
		t.Fatalf("duetimetest: %v", err)
	}
	for i, row := range l.rows {
		if l.rows[i].ofKind = slices.Contains(kind.Names(), row.Kind); !l.rows[i].ofKind {
			continue
		}
		if l.rows[i].payload, err = kind.Payload(row.Task); err != nil {
			t.Fatalf("duetimetest: payload of %s %s: %v", row.Kind, row.ID, err)
		}
	}
	return l
}

func read(ctx context.Context, s tables, owner string) (listing, error) {
	if err := task.CheckOwner(owner); err != nil {
		return listing{}, err
	}
	tasks, err := s.ListOwner(ctx, nil, owner, "")
	if err != nil {
		return listing{}, err
	}
	labels, err := s.Labels(ctx, protocol.IDs(tasks))
	if err != nil {
		return listing{}, err
	}
	rows := make([]row, len(tasks))
	for i, t := range tasks {
		rows[i] = row{Task: t, labels: labels[t.ID], payload: t.Payload}
	}
	now, err := s.Now(ctx, nil)
	return listing{rows: rows, now: now}, err
}

func decoded[P any](t testing.TB, kind task.Kind[P], row task.Task) worker.Task[P] {
	t.Helper()
	payload, err := kind.Payload(row)
	if err != nil {
		t.Fatalf("duetimetest: %v", err)
	}
	return worker.Task[P]{Task: row, Payload: payload}
}

func (l listing) unmet(row row, wants []Want) []string {
	var problems []string
	for _, w := range wants {
		if problem := w.unmet(row, l.now); problem != "" {
			problems = append(problems, problem)
		}
	}
	return problems
}

// list writes a line for each task, and what is wrong with the tasks of the kind.
func (l listing) list(kind string, wants []Want) string {
	if len(l.rows) == 0 {
		return "pending are: none"
	}
	var b strings.Builder
	b.WriteString("pending are:")
	for _, row := range l.rows {
		fmt.Fprintf(&b, "\n  %s, in %v", describe(row.Task), row.RunAt.Sub(l.now))
		if kind != "" && row.ofKind {
			fmt.Fprintf(&b, "\n    this one %s", strings.Join(l.unmet(row, wants), ", "))
		}
	}
	return b.String()
}

func wanted(kind string, wants []Want) string {
	for i, w := range wants {
		sep := " with "
		if i > 0 {
			sep = ", "
		}
		kind += sep + w.text
	}
	return kind
}

// describe names a task with everything that a test may have set.
func describe(row task.Task) string {
	s := fmt.Sprintf("%s %s of %s", row.Kind, row.ID, row.Owner)
	if row.Subject != "" {
		s += " about " + row.Subject
	}
	if len(row.Payload) > 0 {
		s += " " + string(row.Payload)
	}
	s += " due at " + clock(row.DueAt)
	if row.Attempt > 0 {
		s += fmt.Sprintf(", attempt %d failed: %s", row.Attempt, row.LastError)
	}
	return s
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
