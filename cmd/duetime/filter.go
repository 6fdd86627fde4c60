package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/typed"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// filterFlags select tasks.
type filterFlags struct {
	owner, kind, queue  string
	dueAfter, dueBefore string
	labels              []string // name=value
	group               string
	exclude             task.Exclusion
	placeFlags
}

func (t *tool) addFilterFlags(cmd *cobra.Command, f *filterFlags) {
	cmd.Flags().StringVar(&f.owner, "owner", "", "only tasks of this owner")
	cmd.Flags().StringVar(&f.kind, "kind", "", "only tasks of this kind")
	cmd.Flags().StringVar(&f.queue, "queue", "", "only tasks of this queue")
	cmd.Flags().StringVar(&f.dueAfter, "due-after", "", "only tasks due at this time or after it: "+timeForms)
	cmd.Flags().StringVar(&f.dueBefore, "due-before", "", "only tasks due before this time")
	cmd.Flags().StringArrayVar(&f.labels, "label", nil, "only tasks with this label, name=value; repeated: with all of them")
	cmd.Flags().StringVar(&f.group, "group", "", "only members of this group")
	cmd.Flags().StringArrayVar(&f.exclude.Kinds, "exclude-kind", nil, "no tasks of this kind; repeated: of none of them")
	cmd.Flags().StringArrayVar(&f.exclude.Labels, "exclude-label", nil, "no tasks with this label, name=value; repeated: with none of them")
	complete(cmd, "queue", t.queues)
	complete(cmd, "kind", t.kinds)
	complete(cmd, "exclude-kind", t.kinds)
}

// addListFlags adds the flags of the commands that list tasks.
func (t *tool) addListFlags(cmd *cobra.Command, f *filterFlags) {
	t.addFilterFlags(cmd, f)
	t.addPlaceFlags(cmd, &f.placeFlags, "tasks")
}

// filter reads the flags. now is this machine's clock, in the operator's zone.
func (f filterFlags) filter(now time.Time) (console.Filter, error) {
	out := console.Filter{Owner: f.owner, Kind: f.kind, Queue: f.queue, Limit: f.limit, Exclude: f.exclude}
	var err error
	if out.Labels, err = parseLabels(f.labels); err != nil {
		return out, fmt.Errorf("--label: %w", err)
	}
	if f.group != "" {
		if err := protocol.CheckGroup(f.group); err != nil {
			return out, fmt.Errorf("--group: %w", err)
		}
		if out.Labels == nil {
			out.Labels = map[string]string{}
		}
		out.Labels[protocol.GroupLabel] = f.group
	}
	if out.After = f.after; f.after != "" {
		if err := console.CheckCursor(f.after); err != nil {
			return out, fmt.Errorf("--after: %w", err)
		}
	}
	for _, bound := range []struct {
		flag, text string
		to         *time.Time
	}{{"--due-after", f.dueAfter, &out.DueAfter}, {"--due-before", f.dueBefore, &out.DueBefore}} {
		if bound.text == "" {
			continue
		}
		m, err := parseMoment(bound.text, now, typed.Today)
		if err != nil {
			return out, fmt.Errorf("%s: %w", bound.flag, err)
		}
		*bound.to = m.On(now)
	}
	return out, nil
}

// chosen reads the flags as the filter of an operation.
func (f filterFlags) chosen(now time.Time) (task.Filter, error) {
	filter, err := f.filter(now)
	return task.Filter{
		Kind: filter.Kind, Owner: filter.Owner, Queue: filter.Queue, DueAfter: filter.DueAfter, DueBefore: filter.DueBefore,
		Labels: filter.Labels, Exclude: filter.Exclude,
	}, err
}

// parseLabels reads labels as name=value; nil if there are none.
func parseLabels(texts []string) (labels map[string]string, err error) {
	for _, text := range texts {
		name, value, found := strings.Cut(text, "=")
		_, twice := labels[name]
		switch {
		case !found:
			return nil, fmt.Errorf("%q is not name=value", text)
		case twice:
			return nil, fmt.Errorf("%s is given twice: a task has one value of a name", name)
		}
		if err := protocol.CheckLabel(name, value); err != nil {
			return nil, err
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[name] = value
	}
	return labels, nil
}

// selection is the filter of a command that changes dead tasks: it requires ids, a filter, or --all.
func (f filterFlags) selection(cmd *cobra.Command, now time.Time, ids []task.ID, all bool) (task.Filter, error) {
	limited := cmd.Flags().Changed("limit")
	empty := f.owner+f.kind+f.queue+f.group+f.dueAfter+f.dueBefore == "" && len(f.labels) == 0
	switch named := len(ids) > 0; {
	case limited && f.limit < 1:
		return task.Filter{}, fmt.Errorf("--limit: %d is below 1", f.limit)
	case named && (all || limited || !empty || !f.exclude.IsZero()):
		return task.Filter{}, errors.New("give either ids or filters")
	case all && !empty:
		return task.Filter{}, errors.New("give either filters or --all")
	case !named && !all && empty:
		return task.Filter{}, errors.New("give ids, a filter, or --all")
	}
	filter, err := f.chosen(now)
	filter.IDs, filter.All = ids, all
	return filter, err
}

// list reads a page and shows it.
func (t *tool) list(ctx context.Context, f filterFlags, state *task.State, write func([]console.Task) error) error {
	if err := checkLimit(f.limit); err != nil {
		return err
	}
	filter, err := f.filter(t.now())
	if err != nil {
		return err
	}
	filter.State = state
	return t.with(ctx, func(c *console.Console) error {
		page, err := c.List(ctx, filter)
		if err != nil {
			return err
		}
		if err := c.CheckQueue(ctx, f.queue); f.queue != "" && len(page.Tasks) == 0 && err != nil {
			_, _ = fmt.Fprintln(t.errs, err) // a typing error, or a queue that was removed and has no tasks left
		}
		return showPage(t, page.Tasks, page.Next, write)
	})
}
