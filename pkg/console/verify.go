package console

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// stuckAfter is how long a task may be due before it counts as stuck: by then its hint has been put again several times.
const stuckAfter = 10 * time.Minute

// behindAfter is how long a recurrence may be without a next task before it counts: by then the daemon has met it several times.
const behindAfter = time.Minute

// Count is one figure of Verify.
type Count struct {
	Name   string
	Number *int64 // nil: not checked
	Broken bool   // a number above 0 means a broken promise
	Remark string // the first such task, or why the figure was not checked
}

// Verified is the result of Verify. As JSON it is an object of names and numbers.
type Verified []Count

// Broken reports whether a promise is broken.
func (v Verified) Broken() bool {
	for _, c := range v {
		if c.Broken && c.Number != nil && *c.Number > 0 {
			return true
		}
	}
	return false
}

// MarshalJSON writes the counts in their order, and null for unchecked ones.
func (v Verified) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, c := range v {
		pair, err := json.Marshal(map[string]*int64{c.Name: c.Number})
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(bytes.Trim(pair, "{}"))
	}
	return append(append([]byte("{"), b.Bytes()...), '}'), nil
}

// Audit is a service's check of its own data, which Verify runs after its own checks.
type Audit struct {
	Subject string   // the audited data, for the help
	Help    string   // the meaning of its counts
	Counts  []string // their names
	// Run returns the counts, or why the data can't be checked.
	Run func(ctx context.Context, on AuditSource) (counts []int64, unchecked string, err error)
}

// AuditSource gives an audit its data.
type AuditSource struct {
	DB        *sqlx.DB
	Retention time.Duration                                                 // of finished rows, at least
	Tasks     func(ctx context.Context, ids []task.ID) ([]task.Task, error) // rows by id; ids without a row are absent
}

// Verify compares MySQL and Redis, and runs the audits. It reads all rows, in short statements that lock none. Without Redis it
// returns what MySQL alone tells, and the error.
func (c *Console) Verify(ctx context.Context) (Verified, error) {
	drift, away := c.Drift(ctx)
	if away != nil && !c.indexAway(away) {
		return nil, away
	}
	overdue, err := c.store.Overdue(ctx, c.cfg.Grace)
	if err != nil {
		return nil, err
	}
	stuck, err := c.store.Stuck(ctx, stuckAfter)
	if err != nil {
		return nil, err
	}
	audited, err := c.store.AuditRows(ctx)
	if err != nil {
		return nil, err
	}
	unhandled, err := c.store.AllUnhandled(ctx)
	if err != nil {
		return nil, err
	}
	behind, err := c.store.LeftBehind(ctx, behindAfter)
	if err != nil {
		return nil, err
	}
	states, err := c.store.Counts(ctx)
	if err != nil {
		return nil, err
	}
	var v Verified
	for state := task.Pending; state <= task.Dead; state++ {
		v = append(v, Count{Name: state.String(), Number: new(states[state])})
	}
	v = append(v,
		Count{"overdue", &overdue, true, ""},
		compared("missing", drift.Missing, away),
		compared("extra", drift.Extra, away),
		Count{"stuck", &stuck, true, ""},
		Count{"premature", &audited.Premature, true, firstOf(audited.FirstPremature)},
		Count{"invalid", &audited.Invalid, true, firstOf(audited.FirstInvalid)},
	)
	for _, a := range c.cfg.Audits {
		if v, err = c.audit(ctx, a, v); err != nil {
			return nil, err
		}
	}
	if behind > 0 {
		v = append(v, Count{"left_behind", &behind, true, "see duetime schedule list"})
	}
	waiting := int64(0)
	for _, u := range unhandled {
		waiting += u.Tasks
	}
	if waiting > 0 {
		v = append(v, Count{Name: "unhandled", Number: &waiting, Remark: UnhandledText(unhandledOf(unhandled))})
	}
	return v, away
}

// compared is a figure for which Redis is needed.
func compared(name string, n int64, away error) Count {
	if away != nil {
		return Count{Name: name, Broken: true, Remark: "Redis can't be reached"}
	}
	return Count{Name: name, Number: &n, Broken: true}
}

// audit appends the counts of one audit.
func (c *Console) audit(ctx context.Context, a Audit, to Verified) (Verified, error) {
	counts, unchecked, err := a.Run(ctx, AuditSource{
		DB: c.store.DB(), Retention: c.cfg.Retention,
		Tasks: func(ctx context.Context, ids []task.ID) ([]task.Task, error) { return c.store.Get(ctx, nil, ids) },
	})
	if err != nil {
		return to, err
	}
	for i, name := range a.Counts {
		count := Count{Name: name, Broken: true, Remark: unchecked}
		if unchecked == "" {
			count.Number = &counts[i]
		}
		to = append(to, count)
	}
	return to, nil
}

func firstOf(id task.ID) string {
	if id.IsZero() {
		return ""
	}
	return "the first " + id.String()
}
