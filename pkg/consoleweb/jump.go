package consoleweb

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// jump leads to what somebody has typed into the box at the top of each page.
func (s *site) jump(w http.ResponseWriter, v *visit) {
	ctx, cancel := context.WithTimeout(v.r.Context(), viewTimeout)
	defer cancel()
	var to string
	err := s.watch(ctx, func(ctx context.Context) (err error) {
		to, err = v.goal(ctx, strings.TrimSpace(v.r.FormValue("q")))
		return err
	})
	if err != nil {
		s.refuse(w, v, err)
		return
	}
	lead(w, to)
}

// goal is the address of a task by its id, of an owner, or of the tasks of a kind or a queue. What is none of these is taken for
// an owner.
func (v *visit) goal(ctx context.Context, text string) (string, error) {
	owner := v.Link("owner", "owner", text)
	if id, err := task.ParseID(text); err == nil {
		rows, err := v.c.Rows(ctx, []task.ID{id})
		if err != nil || len(rows) > 0 {
			return v.Link("task", "id", id), err
		}
	}
	if task.CheckOwner(text) != nil {
		return owner, nil //nolint:nilerr // The owner's page says what is wrong.
	}
	if known, err := v.knowsOwner(ctx, text); known || err != nil {
		return owner, err
	}
	if slices.Contains(v.c.QueueNames(), text) {
		return v.Link("tasks", "queue", text), nil
	}
	if known, err := v.knowsKind(ctx, text); known || err != nil {
		return v.Link("tasks", "kind", text), err
	}
	return owner, nil
}

func (v *visit) knowsOwner(ctx context.Context, owner string) (bool, error) {
	tasks, err := v.c.List(ctx, console.Filter{Owner: owner, Limit: 1})
	if err != nil || len(tasks.Tasks) > 0 {
		return true, err
	}
	if _, blocked, err := v.c.BlockedOwner(ctx, owner); blocked || err != nil {
		return true, err
	}
	recurrences, err := v.c.Recurrences(ctx, console.RecurrenceFilter{Owner: owner, Limit: 1})
	return len(recurrences.Recurrences) > 0, err
}

// knowsKind reports whether a living process handles the kind, or one of the tasks that come next has it.
func (v *visit) knowsKind(ctx context.Context, kind string) (bool, error) {
	alive, err := v.c.Processes(ctx)
	if err != nil || slices.ContainsFunc(alive, func(p console.Process) bool { return slices.Contains(p.Kinds, kind) }) {
		return true, err
	}
	done, err := v.site.oneAtATime(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	page, err := v.c.ListBounded(ctx, console.Filter{Kind: kind, Limit: 1})
	return len(page.Tasks) > 0, err
}
