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
	key, err := v.meaning(ctx, text)
	switch key {
	case "id":
		return v.Link("task", "id", text), err
	case "kind", "queue":
		return v.Link("tasks", key, text), err
	}
	return v.Link("owner", "owner", text), err
}

// meaning is the key of what a word names: the id of a task, an owner, a queue or a kind; empty for a word that is not known.
func (v *visit) meaning(ctx context.Context, text string) (key string, err error) {
	if id, notID := task.ParseID(text); notID == nil {
		rows, err := v.c.Rows(ctx, []task.ID{id})
		if err != nil || len(rows) > 0 {
			return "id", err
		}
	}
	if task.CheckOwner(text) != nil {
		return "", nil //nolint:nilerr // The owner's page says what is wrong.
	}
	if known, err := v.knowsOwner(ctx, text); known || err != nil {
		return "owner", err
	}
	if queues, err := v.c.QueueNames(ctx); slices.Contains(queues, text) || err != nil {
		return "queue", err
	}
	if known, err := v.knowsKind(ctx, text); known || err != nil {
		return "kind", err
	}
	return "", nil
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
