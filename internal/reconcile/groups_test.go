package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/group"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// report is the payload of followers.
type report struct {
	Group task.Group `json:"group"`
}

// group makes a group of n members, and returns them and the follower's id.
func (w *world) group(t testing.TB, c *schedule.Client, name string, n int) ([]task.Task, task.ID) {
	t.Helper()
	then := task.NewKind[report]("sum").New("office", report{}, task.In(time.Hour))
	specs := make([]task.Spec, n)
	for i := range specs {
		specs[i] = task.NewKind[int]("member").New(fmt.Sprint("owner-", i), i, task.In(time.Hour))
	}
	var made []task.Task
	pipelinetest.Must(t, c.InTx(t.Context(), func(tx *schedule.Tx) (err error) {
		made, err = tx.Group(t.Context(), name, specs, task.Then(then))
		return err
	}))
	return made, then.ID()
}

func (w *world) client(t testing.TB) *schedule.Client {
	t.Helper()
	cfg := schedule.Config{Logger: slog.New(slog.DiscardHandler)}
	c, err := schedule.New(cfg, w.rows, worldtest.Nowhere{}, worldtest.Nowhere{})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// ahead sets the world's clock so long after the database's.
func (w *world) ahead(t testing.TB, d time.Duration) {
	t.Helper()
	w.now = value(t)(w.rows.Now(t.Context(), nil)).Add(d)
}

func TestMembersThatEndElsewhere(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	w := newWorld(t, Config{Metrics: reg})
	c := w.client(t)
	made, id := w.group(t, c, "g", 5)
	elsewhere := "UPDATE duetime_tasks SET state = ?, version = version + 1, finished_at = updated_at WHERE id = ?"
	w.alter(t, w.rows.DB(), elsewhere, task.Done, made[0].ID[:])
	w.alter(t, w.rows.DB(), elsewhere, task.Dead, made[1].ID[:])
	pass := (&groups{r: w.Reconciler}).pass

	w.ahead(t, 0)
	w.run(t, pass)
	got, err := c.GetGroup(t.Context(), "g")
	pipelinetest.Must(t, err)
	if got.Open != 5 {
		t.Errorf("%d members of a group that has changed just now are open, want 5: it is not counted yet", got.Open)
	}
	w.ahead(t, groupQuiet+time.Minute)
	w.run(t, pass)
	got, err = c.GetGroup(t.Context(), "g")
	pipelinetest.Must(t, err)
	if got.Open != 3 || got.Done != 1 || got.Dead != 1 || !got.EndedAt.IsZero() {
		t.Errorf("group is %+v, want 3 members open, 1 done and 1 dead", got)
	}
	if n := worldtest.Sum(t, reg, "duetime_group_members_mended_total"); n != 2 {
		t.Errorf("%v members counted by the metric, want 2", n)
	}
	// Once it was counted, it is left alone for a while, whatever happens.
	w.alter(t, w.rows.DB(), elsewhere, task.Pending, made[1].ID[:])
	w.alter(t, w.rows.DB(), elsewhere, task.Cancelled, made[2].ID[:])
	w.alter(t, w.rows.DB(), "UPDATE duetime_tasks SET finished_at = NULL WHERE state = 0")
	w.alter(t, w.rows.DB(), "DELETE FROM duetime_tasks WHERE id = ?", made[3].ID[:])
	_, err = c.Cancel(t.Context(), made[4].ID)
	pipelinetest.Must(t, err)
	w.ahead(t, groupQuiet+time.Minute)
	w.run(t, pass)
	if got, err = c.GetGroup(t.Context(), "g"); err != nil || got.Open != 2 {
		t.Errorf("group is %+v, %v, want 2 members open: it was counted less than %v ago", got, err, groupRecount)
	}
	w.ahead(t, groupRecount+groupQuiet+time.Minute)
	w.run(t, pass)
	if got, err = c.GetGroup(t.Context(), "g"); err != nil || got.Open != 1 || got.Done+got.Dead+got.Cancelled != 4 {
		t.Errorf("group is %+v, %v, want one member open, which was retried", got, err)
	}
	w.alter(t, w.rows.DB(), elsewhere, task.Done, made[1].ID[:])
	w.ahead(t, 2*(groupRecount+groupQuiet))
	w.run(t, pass)
	row := w.rows.Row(id)
	var told report
	pipelinetest.Must(t, json.Unmarshal(row.Payload, &told))
	if told.Group.Done+told.Group.Dead+told.Group.Cancelled != 5 || row.State != task.Pending {
		t.Errorf("the follower is %+v and knows %+v, want it pending, with 5 members", row, told.Group)
	}
	standing, err := w.sets.Standings(t.Context(), []task.Task{row})
	if err != nil || standing[0].Due == protocol.NoScore {
		t.Errorf("the follower stands at %+v in the index, want it put", standing)
	}
	var lines []string
	pipelinetest.Must(t, w.rows.DB().SelectContext(t.Context(), &lines, "SELECT event FROM duetime_history WHERE actor = 'daemon' ORDER BY seq"))
	if d := diff.Diff([]string{protocol.EventMended, protocol.EventMended, protocol.EventMended, protocol.EventFollows}, lines); d != "" {
		t.Errorf("lines by the daemon (-want +got):\n%s", d)
	}
}

// meanwhile does something while a group's members are counted.
type meanwhile struct {
	Store
	do func(group string)
}

func (m meanwhile) CountMembers(ctx context.Context, name string, after task.ID, limit int) (group.Count, task.ID, error) {
	count, next, err := m.Store.CountMembers(ctx, name, after, limit)
	m.do(name)
	return count, next, err
}

// Whoever ends a member waits for no count, and what a count has found is added to what was counted meanwhile, once.
func TestMembersEndWhileTheyAreCounted(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	w := newWorld(t, Config{Metrics: reg})
	c := w.client(t)
	made := map[string][]task.Task{}
	for _, name := range []string{"a", "b"} {
		made[name], _ = w.group(t, c, name, 3)
		w.alter(t, w.rows.DB(), "UPDATE duetime_tasks SET state = ?, finished_at = updated_at WHERE id = ?", task.Done, made[name][0].ID[:])
	}
	w.ahead(t, groupQuiet+time.Minute)
	store := w.store
	w.store = meanwhile{store, func(name string) {
		_, err := c.Cancel(t.Context(), made[name][1].ID)
		pipelinetest.Must(t, err)
		if name == "b" { // another daemon counts, too
			w.store = store
			w.run(t, (&groups{r: w.Reconciler}).pass)
		}
	}}
	w.run(t, (&groups{r: w.Reconciler}).pass)
	for name := range made {
		got, err := c.GetGroup(t.Context(), name)
		pipelinetest.Must(t, err)
		if got.Open != 1 || got.Done != 1 || got.Cancelled != 1 || !got.EndedAt.IsZero() {
			t.Errorf("group is %+v, want one member open, one done and one cancelled", got)
		}
	}
	if n := worldtest.Sum(t, reg, "duetime_group_members_mended_total"); n != 2 {
		t.Errorf("%v members counted by the metric, want 2", n)
	}
}

// A group that is too large for one pass is counted by several. A member that ends meanwhile has the count begin anew.
func TestLargeGroupIsCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	c := w.client(t)
	follower := task.Follower{Spec: task.NewKind[report]("sum").New("office", report{}, task.In(time.Hour)), Open: true}
	members := func(n int) []task.Spec {
		specs := make([]task.Spec, n)
		for i := range specs {
			specs[i] = task.NewKind[int]("member").New(fmt.Sprint("owner-", i), i, task.In(time.Hour))
		}
		return specs
	}
	var made []task.Task
	pipelinetest.Must(t, c.InTx(t.Context(), func(tx *schedule.Tx) (err error) {
		made, err = tx.Group(t.Context(), "g", members(page), follower)
		return err
	}))
	pipelinetest.Must(t, c.InTx(t.Context(), func(tx *schedule.Tx) error {
		more, err := tx.AddToGroup(t.Context(), "g", members(page/2))
		made = append(made, more...)
		return err
	}))
	last := len(made) - 1
	for _, i := range []int{0, last} {
		w.alter(t, w.rows.DB(), "UPDATE duetime_tasks SET state = ?, finished_at = updated_at WHERE id = ?", task.Done, made[i].ID[:])
	}
	pass := (&groups{r: w.Reconciler, limit: 1}).pass
	want := func(open int) {
		t.Helper()
		w.ahead(t, groupQuiet+time.Minute)
		w.run(t, pass)
		if got, err := c.GetGroup(t.Context(), "g"); err != nil || got.Open != open {
			t.Errorf("group is %+v, %v; want %d members open", got, err, open)
		}
	}
	want(last + 1) // a page
	_, err := c.Cancel(t.Context(), made[1].ID)
	pipelinetest.Must(t, err)
	want(last) // the counts were written since
	want(last) // a page once more
	want(last - 2)
}

// A group is forgotten once it has ended and no member's row is left; then its name is free.
func TestGroupsAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{Retention: time.Hour})
	c := w.client(t)
	made, _ := w.group(t, c, "ended", 1)
	w.group(t, c, "open", 1)
	_, err := c.Cancel(t.Context(), made[0].ID)
	pipelinetest.Must(t, err)
	pass := newPurge(w.Reconciler).pass
	names := func() (names []string) {
		pipelinetest.Must(t, w.rows.DB().SelectContext(t.Context(), &names, "SELECT name FROM duetime_groups ORDER BY name"))
		return names
	}
	w.ahead(t, 50*time.Minute)
	w.run(t, pass)
	if d := diff.Diff([]string{"ended", "open"}, names()); d != "" {
		t.Errorf("groups within the retention (-want +got):\n%s", d)
	}
	w.ahead(t, 2*time.Hour)
	w.run(t, pass)
	w.run(t, pass)
	if d := diff.Diff([]string{"open"}, names()); d != "" {
		t.Errorf("groups after the retention (-want +got):\n%s", d)
	}
	if n := w.rows.Number("SELECT COUNT(*) FROM duetime_group_parts WHERE name = 'ended'"); n != 0 {
		t.Errorf("%d parts of a group that was forgotten, want none", n)
	}
	w.group(t, c, "ended", 1)
}
