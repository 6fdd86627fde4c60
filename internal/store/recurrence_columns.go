package store

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
)

// recurrenceColumns are the columns of duetime_recurrences. A tick changes those that are changed; the others are the definition.
var recurrenceColumns = []column[task.Recurrence]{
	binaryID("id", func(r *task.Recurrence) *task.ID { return &r.ID }, 0),
	text("owner", func(r *task.Recurrence) *string { return &r.Owner }, 0),
	text("name", func(r *task.Recurrence) *string { return &r.Name }, 0),
	moment("created_at", func(r *task.Recurrence) *time.Time { return &r.CreatedAt }, 0),
	{
		name: "timetable", into: func(r *task.Recurrence) any { return timetableText{&r.Timetable} },
		value: func(r *task.Recurrence) any { return r.Timetable.String() },
	},
	{name: "policy", into: func(r *task.Recurrence) any { return policyJSON{&r.Policy} }, value: policyText},
	text("kind", func(r *task.Recurrence) *string { return &r.Kind }, 0),
	text("queue", func(r *task.Recurrence) *string { return &r.Queue }, 0),
	text("subject", func(r *task.Recurrence) *string { return &r.Subject }, 0),
	number("max_attempts", func(r *task.Recurrence) *int { return &r.MaxAttempts }, 0),
	payload("payload", func(r *task.Recurrence) *[]byte { return &r.Payload }, 0),
	number("state", func(r *task.Recurrence) *task.RecurrenceState { return &r.State }, changed),
	text("note", func(r *task.Recurrence) *string { return &r.Note }, changed),
	moment("passed", func(r *task.Recurrence) *time.Time { return &r.Passed }, changed),
	{
		name: "newest", into: func(r *task.Recurrence) any { return nullableID{&r.Newest} },
		value: func(r *task.Recurrence) any { return idOrNull(r.Newest) }, uses: changed,
	},
	ending("due_at", func(r *task.Recurrence) *time.Time { return &r.DueAt }, changed),
	ending("began_at", func(r *task.Recurrence) *time.Time { return &r.BeganAt }, changed),
	number("made", func(r *task.Recurrence) *int64 { return &r.Made }, changed),
	number("skipped", func(r *task.Recurrence) *int64 { return &r.Skipped }, changed),
	number("caught_up", func(r *task.Recurrence) *int64 { return &r.CaughtUp }, changed),
	moment("updated_at", func(r *task.Recurrence) *time.Time { return &r.UpdatedAt }, changed),
}

// recurrenceProgress are the columns that a tick may change.
var recurrenceProgress = slices.DeleteFunc(slices.Clone(recurrenceColumns), func(c column[task.Recurrence]) bool { return c.uses&changed == 0 })

var recurrenceList = names(recurrenceColumns)

// assign sets a column of rows to one value if all have the same, otherwise by CASE.
func assign(c column[task.Recurrence], set []string, args []any, rows []task.Recurrence) ([]string, []any) {
	values := make([]any, len(rows))
	same := true
	for i := range rows {
		values[i] = c.value(&rows[i])
		_, bytes := values[i].([]byte) // can't be compared
		same = same && !bytes && values[i] == values[0]
	}
	if same {
		return append(set, c.name+" = ?"), append(args, values[0])
	}
	for i := range rows {
		args = append(args, rows[i].ID[:], values[i])
	}
	return append(set, c.name+" = CASE id"+strings.Repeat(" WHEN ? THEN ?", len(rows))+" END"), args
}

func idOrNull(id task.ID) any {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

// nullableID is the zero id if the column is NULL.
type nullableID struct{ to *task.ID }

func (d nullableID) Scan(src any) error {
	if src == nil {
		*d.to = task.ID{}
		return nil
	}
	return idBytes(d).Scan(src)
}

// A timetable or a policy that this program can't read does not fail the statement, which may be about many rows: it is one
// that Check refuses.
type timetableText struct{ to *recur.Timetable }

func (d timetableText) Scan(src any) error {
	var text string
	if err := (nullableText{&text}).Scan(src); err != nil {
		return err
	}
	*d.to = parsed(text)
	return nil
}

// timetables keeps those that were parsed lately: a batch of recurrences has few.
var timetables struct {
	sync.Mutex

	byText map[string]recur.Timetable
}

const maxTimetables = 10_000

func parsed(text string) recur.Timetable {
	timetables.Lock()
	defer timetables.Unlock()
	t, ok := timetables.byText[text]
	if ok {
		return t
	}
	t, _ = recur.Parse(text)
	if timetables.byText == nil || len(timetables.byText) >= maxTimetables {
		timetables.byText = map[string]recur.Timetable{}
	}
	timetables.byText[text] = t
	return t
}

type policyJSON struct{ to *recur.Policy }

func (d policyJSON) Scan(src any) error {
	var text string
	if err := (nullableText{&text}).Scan(src); err != nil {
		return err
	}
	if *d.to = (recur.Policy{}); text == "{}" {
		return nil
	}
	if json.Unmarshal([]byte(text), d.to) != nil {
		d.to.Count = -1
	}
	return nil
}

func policyText(r *task.Recurrence) any {
	text, err := json.Marshal(r.Policy)
	if err != nil {
		return "{}" // a Policy has nothing that JSON can't hold
	}
	return string(text)
}
