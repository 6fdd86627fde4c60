package console

import (
	"context"
	"time"

	"github.com/duetime/duetime/pkg/console/internal/views"
	"github.com/duetime/duetime/pkg/task"
)

const (
	deadScanned = 30_000          // dead tasks, in search of those of a kind with an error
	deadAtOnce  = task.MaxPerCall // that DeadAlike returns: an operation names as many
)

// DeadChoice chooses dead tasks of a kind.
type DeadChoice struct {
	Kind, Error string    // as a DeadGroup has them
	Any         bool      // whatever their error
	Since       time.Time // when they died at the earliest; zero: all
}

// DeadAlike reads the dead tasks that are chosen, by their run times, and at most 1,000 of them. more says that there may be others.
// It reads rows of all owners: let one such call go on at a time.
func (c *Console) DeadAlike(ctx context.Context, d DeadChoice) (found []Task, more bool, err error) {
	f := Filter{Kind: d.Kind, State: new(task.Dead), Limit: walkScanned}
	for range deadScanned / walkScanned {
		page, err := c.walk(ctx, f, 0)
		if err != nil {
			return nil, false, err
		}
		for _, t := range page.Tasks {
			if d.chooses(t) {
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
