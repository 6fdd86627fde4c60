package imports

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/pkg/task"
)

// run is one run of an import.
type run struct {
	cfg    Config
	from   redis.Cmdable
	source Source
	rows   Rows
	sum    Result
}

// reading is what was read of a member: the parts of a task, an error, or that the member has left the source.
type reading struct {
	member  string
	kind    Kind
	owner   string // empty: the task's own id
	payload []byte // JSON; empty: null
	due     time.Time
	left    bool
	err     error
}

// wanted is a member with its task.
type wanted struct {
	member string
	spec   task.Spec
	row    task.Task // as the spec makes it
}

func (r *run) everyPage(ctx context.Context) error {
	if err := r.source.prepare(ctx, r.from); err != nil {
		return fmt.Errorf("read %s: %w", r.source, err)
	}
	w := newWalk(r.from, r.source, r.cfg)
	total, err := w.count(ctx)
	if err != nil {
		return err
	}
	for read := 0; ; {
		members, err := w.next(ctx)
		if err != nil || len(members) == 0 {
			return err
		}
		if err := r.page(ctx, members); err != nil {
			return err
		}
		read += len(members)
		if r.cfg.Progress != nil {
			r.cfg.Progress(read, total)
		}
	}
}

// page makes tasks of a page's members.
func (r *run) page(ctx context.Context, members []member) error {
	readings, err := r.source.read(ctx, r.from, members)
	if err != nil {
		return fmt.Errorf("read %s: %w", r.source, err)
	}
	now, err := r.rows.Clock(ctx)
	if err != nil {
		return err
	}
	var all []wanted
	for _, read := range readings {
		if read.left {
			r.sum.Left++
			continue
		}
		w, err := r.task(read, now)
		if err != nil {
			r.refuse(read.member, err)
			continue
		}
		all = append(all, w)
	}
	missing, err := r.missing(ctx, all)
	if err != nil || len(missing) == 0 {
		return err
	}
	return r.write(ctx, missing)
}

// task makes the task of a member, or says why it can't.
func (r *run) task(read reading, now time.Time) (wanted, error) {
	if read.err != nil {
		return wanted{}, read.err
	}
	id := idOf(append(r.identity(), read.member)...)
	owner := read.owner
	if r.cfg.OwnerFrom != "" {
		var err error
		if owner, err = field(read.payload, r.cfg.OwnerFrom); err != nil {
			return wanted{}, err
		}
	}
	if owner == "" {
		owner = id.String()
	}
	if !utf8.Valid(read.payload) {
		return wanted{}, errors.New("its payload is no UTF-8")
	}
	if len(read.payload) == 0 {
		read.payload = nil // encoded as null
	}
	spec := read.kind.New(owner, read.payload, task.At(read.due), task.WithID(id))
	row, err := spec.Resolve(now)
	if err != nil {
		return wanted{}, err
	}
	return wanted{read.member, spec, row}, nil
}

// identity is what tells the source apart, as the ids need it. It never changes: another one would make every task once
// more.
func (r *run) identity() []string {
	return append([]string{r.cfg.Label, fmt.Sprint(r.cfg.Database)}, r.source.name()...)
}

// missing returns the tasks that have no row, and counts the others. It reads without locks, so a run never waits for a
// worker that runs an imported task.
func (r *run) missing(ctx context.Context, all []wanted) ([]wanted, error) {
	ids := make([]task.ID, len(all))
	for i, w := range all {
		ids[i] = w.row.ID
	}
	rows, err := r.rows.Rows(ctx, ids)
	if err != nil {
		return nil, err
	}
	kinds := make(map[task.ID]string, len(rows))
	for _, row := range rows {
		kinds[row.ID] = row.Kind
	}
	var missing []wanted
	for _, w := range all {
		kind, present := kinds[w.row.ID]
		switch {
		case present && kind != w.row.Kind:
			r.refuse(w.member, fmt.Errorf("was imported before, as task %s of kind %s", w.row.ID, kind))
		case present:
			r.sum.Present++
		default:
			missing = append(missing, w)
		}
	}
	return missing, nil
}

// write commits the tasks in one transaction, but for those that may have had a row.
func (r *run) write(ctx context.Context, missing []wanted) error {
	var ready []wanted
	for _, w := range missing {
		if err := r.checkDue(w); err != nil {
			r.refuse(w.member, err)
			continue
		}
		ready = append(ready, w)
		if r.cfg.DryRun && len(r.sum.First) < FirstTasks {
			r.sum.First = append(r.sum.First, w.row)
		}
	}
	if r.cfg.DryRun || len(ready) == 0 {
		r.sum.Imported += len(ready)
		return nil
	}
	return r.commit(ctx, ready)
}

// commit commits the tasks in one transaction. If an owner is blocked, each task has its own, and those of blocked owners are refused.
func (r *run) commit(ctx context.Context, ready []wanted) error {
	specs := make([]task.Spec, len(ready))
	for i, w := range ready {
		specs[i] = w.spec
	}
	err := r.rows.Import(ctx, specs, r.source.String())
	switch isBlocked := errors.Is(err, task.ErrOwnerBlocked); {
	case isBlocked && len(ready) == 1:
		r.refuse(ready[0].member, task.ErrOwnerBlocked)
		return nil
	case isBlocked:
		for i := range ready {
			if err := r.commit(ctx, ready[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	case err != nil:
		return fmt.Errorf("import from %s: %w", r.source, err)
	}
	r.sum.Imported += len(ready)
	return nil
}

// checkDue refuses a member that may have been imported, run and purged before. A task ends at its due time or later, and
// its row is kept for the retention, so the row of a member that is due less far back still exists.
func (r *run) checkDue(w wanted) error {
	due, _ := w.spec.At()
	if r.cfg.Overdue || due.After(w.row.CreatedAt.Add(-r.cfg.Retention(w.row.Kind))) {
		return nil
	}
	return fmt.Errorf("was due %s, longer ago than finished rows are kept: it may have been imported, run and purged",
		due.Format(time.RFC3339))
}

func (r *run) refuse(name string, reason error) {
	r.sum.Unreadable++
	if r.cfg.Unreadable != nil {
		r.cfg.Unreadable(Unreadable{Member: shown(name), Reason: reason.Error()})
	}
}

// shown cuts a member for a list.
func shown(name string) string {
	if len(name) > maxShownMember {
		name = name[:maxShownMember]
		for !utf8.ValidString(name) && len(name) > maxShownMember-utf8.UTFMax {
			name = name[:len(name)-1]
		}
	}
	return strings.ToValidUTF8(name, "?")
}
