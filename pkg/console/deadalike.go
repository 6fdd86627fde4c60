package console

import (
	"bytes"
	"cmp"
	"context"
	"time"

	"github.com/duetime/duetime/pkg/console/internal/views"
	"github.com/duetime/duetime/pkg/task"
)

const (
	deadScanned = 30_000 // dead tasks, in search of those of a kind with an error
	deadAtOnce  = 5000   // that DeadAlike returns: one change of them takes some seconds
)

// DeadChoice chooses dead tasks of a kind.
type DeadChoice struct {
	Kind, Error string    // as a DeadGroup has them
	Any         bool      // whatever their error
	Since       time.Time // when they died at the earliest; zero: all
	// Until, unless it is empty, leaves out the tasks after a place, as Filter.Place of the zero Filter names it: a task that is retried
	// comes later when it dies once more. So a change of what DeadAlike has shown changes each task once, even if it is made twice.
	Until string
}

// DeadAlike reads the dead tasks that are chosen, by their run times, and at most 5,000 of them. more says that there may be others.
// It reads rows of all owners: let one such call go on at a time. A place that is none is a *task.FieldError.
func (c *Console) DeadAlike(ctx context.Context, d DeadChoice) (found []Task, more bool, err error) {
	last, err := parseWalkCursor(d.Until)
	if err != nil {
		return nil, false, err
	}
	f := Filter{Kind: d.Kind, State: new(task.Dead), Limit: walkScanned}
	if d.Until != "" {
		f.RunBefore = last.At.Add(time.Millisecond)
	}
	for range deadScanned / walkScanned {
		page, err := c.walk(ctx, f, 0)
		if err != nil {
			return nil, false, err
		}
		for _, t := range page.Tasks {
			if d.chooses(t) && (d.Until == "" || !isPast(t, last)) {
				found = append(found, t)
			}
		}
		if len(found) >= deadAtOnce {
			return found[:deadAtOnce], true, nil
		}
		if f.After = page.Next; page.Next == "" {
			return found, false, nil
		}
	}
	return found, true, nil
}

func (d DeadChoice) chooses(t Task) bool {
	died := time.UnixMilli(t.UpdatedAtMs)
	if t.FinishedAt != nil {
		died = time.UnixMilli(*t.FinishedAt)
	}
	return !died.Before(d.Since) && (d.Any || alikeError(beginning(t.LastError)) == d.Error)
}

// isPast reports whether a task comes after a place.
func isPast(t Task, last task.Cursor) bool {
	return cmp.Or(time.UnixMilli(t.RunAtMs).Compare(last.At), bytes.Compare(t.ID[:], last.ID[:])) > 0
}

func beginning(text string) string {
	n := 0
	for i := range text {
		if n == views.MaxError {
			return text[:i]
		}
		n++
	}
	return text
}
