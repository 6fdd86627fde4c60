package schedule_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/duetime/duetime/internal/group"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/encrypt"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// report is the payload of the followers here.
type report struct {
	Month string     `json:"month"`
	Group task.Group `json:"group"`
}

var sum = task.NewKind[report]("report.sum")

func follower(opts ...task.Option) task.Spec {
	return sum.New("office", report{Month: "May"}, task.In(0), opts...)
}

func members(n int) []task.Spec {
	specs := make([]task.Spec, n)
	for i := range specs {
		specs[i] = meal.New(fmt.Sprintf("player-%d", i%50), i, task.In(time.Hour))
	}
	return specs
}

// group makes a group, and returns its members and the follower's id.
func (w *world) group(t testing.TB, name string, specs []task.Spec, then task.Follower) ([]task.Task, task.ID) {
	t.Helper()
	var made []task.Task
	pipelinetest.Must(t, w.InTx(t.Context(), func(tx *schedule.Tx) (err error) {
		made, err = tx.Group(t.Context(), name, specs, then)
		return err
	}))
	return made, then.Spec.ID()
}

// end ends tasks in a transaction, as a worker or an operator does.
func end(ctx context.Context, tx *schedule.Tx, state task.State, ended ...task.Task) error {
	rows, err := tx.GetMany(ctx, protocol.IDs(ended))
	if err != nil {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	changes := make([]transition.Change, len(rows))
	for i, row := range rows {
		after := transition.Finish(row, now)
		switch state {
		case task.Dead:
			after = transition.Discard(row, errors.New("enough"), now)
		case task.Cancelled:
			if after, err = transition.Cancel(row, now); err != nil {
				return err
			}
		case task.Pending:
			if after, err = transition.Retry(row, now); err != nil {
				return err
			}
		}
		changes[i] = transition.Change{Before: row, After: after}
	}
	return insideOf(tx).Ledger().Write(ctx, changes)
}

func (w *world) end(t testing.TB, state task.State, ended ...task.Task) {
	t.Helper()
	pipelinetest.Must(t, w.InTx(t.Context(), func(tx *schedule.Tx) error { return end(t.Context(), tx, state, ended...) }))
}

// wantGroup wants a group's counts, without its times and its follower.
func (w *world) wantGroup(t testing.TB, want task.Group) {
	t.Helper()
	got, err := w.GetGroup(t.Context(), want.Name)
	pipelinetest.Must(t, err)
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(task.Group{}, "FollowerID", "FollowerKind", "FollowerOwner", "CreatedAt", "EndedAt")); d != "" {
		t.Errorf("group (-want +got):\n%s", d)
	}
}

// wantFollower wants the follower to be there once, with these counts.
func (w *world) wantFollower(t testing.TB, id task.ID, counts task.Group) task.Task {
	t.Helper()
	if !w.exists(t, id) {
		t.Fatalf("group %s has no follower", counts.Name)
	}
	row := w.store.Row(id)
	var got report
	pipelinetest.Must(t, json.Unmarshal(row.Payload, &got))
	if d := cmp.Diff(report{Month: "May", Group: counts}, got); d != "" {
		t.Errorf("payload of the follower (-want +got):\n%s", d)
	}
	lines, err := w.store.History(t.Context(), id, 10)
	pipelinetest.Must(t, err)
	if len(lines) != 1 || lines[0].Name != protocol.EventFollows || !strings.HasPrefix(lines[0].Detail, "group "+counts.Name+": ") {
		t.Errorf("history of the follower is %+v, want one line about group %s", lines, counts.Name)
	}
	return row
}

func TestFollowerComesWithTheLastEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made, id := w.group(t, "may", members(4), task.Then(follower(task.Label("tier", "gold"))))
	w.wantGroup(t, task.Group{Name: "may", Open: 4, Sealed: true})
	w.end(t, task.Done, made[0])
	w.end(t, task.Dead, made[1])
	w.end(t, task.Done, made[2])
	w.wantGroup(t, task.Group{Name: "may", Open: 1, Done: 2, Dead: 1, Sealed: true})
	if w.exists(t, id) {
		t.Fatal("the follower is there before the last member has ended")
	}
	_, err := w.Cancel(t.Context(), made[3].ID) // outside of a transaction
	pipelinetest.Must(t, err)
	counts := task.Group{Name: "may", Done: 2, Dead: 1, Cancelled: 1}
	row := w.wantFollower(t, id, counts)
	if last := w.store.Row(made[3].ID); row.DueAt.Before(last.FinishedAt) || row.Owner != "office" || row.State != task.Pending {
		t.Errorf("follower is %+v, want a task of the office that is due since the last member ended, at %v", row, last.FinishedAt)
	}
	labels, err := w.store.Labels(t.Context(), []task.ID{id, made[0].ID})
	pipelinetest.Must(t, err)
	if d := cmp.Diff(map[task.ID]map[string]string{id: {"tier": "gold"}, made[0].ID: {"duetime.group": "may"}}, labels); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
	if len(w.put(id)) == 0 {
		t.Error("the follower was not put into the index")
	}
	counts.Sealed = true
	w.wantGroup(t, counts)
}

// A follower takes effect in order, as any task does.
func TestFollowerInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	inOrder := task.NewKind[report](sum.Name(), task.InOrder())
	for name, then := range map[string]task.Spec{
		"by key":     inOrder.New("office", report{Month: "May"}, task.In(0), task.OrderKey("city-17")),
		"by subject": inOrder.New("office", report{Month: "May"}, task.In(0), task.Subject("city-18")),
	} {
		wanted, err := then.Resolve(time.Now())
		pipelinetest.Must(t, err)
		made, id := w.group(t, name, members(1), task.Then(then))
		w.end(t, task.Done, made...)
		want(t, "order key of the follower "+name, w.wantFollower(t, id, task.Group{Name: name, Done: 1}).OrderKey, wanted.OrderKey)
		want(t, "its places in the order", w.store.Number("SELECT COUNT(*) FROM duetime_orders WHERE task_id = ? AND order_key = ?", id[:], wanted.OrderKey), 1)
	}
}

// Transactions of any size end members side by side, and some are rolled back.
func TestFollowerComesOnceWhateverIsAtWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const groups, each = 3, 240
	for g := range groups {
		name := fmt.Sprintf("g%d", g)
		made, id := w.group(t, name, members(each/2), task.Follower{Spec: follower(), Open: true})
		var more []task.Task
		pipelinetest.Must(t, w.InTx(t.Context(), func(tx *schedule.Tx) (err error) {
			more, err = tx.AddToGroup(t.Context(), name, members(each/2))
			return err
		}))
		made = append(made, more...)
		var busy sync.WaitGroup
		undone := errors.New("undone")
		busy.Go(func() {
			pipelinetest.Must(t, w.InTx(t.Context(), func(tx *schedule.Tx) error { return tx.SealGroup(t.Context(), name) }))
		})
		for at, size := 0, 0; at < each; at += size {
			size = min(1+rand.IntN(20), each-at)
			part, state := made[at:at+size], task.State(1+rand.IntN(3))
			if at == 0 {
				state = task.Done
			}
			busy.Go(func() {
				for _, refused := range []error{undone, nil} {
					err := w.InTx(t.Context(), func(tx *schedule.Tx) error { return cmp2(end(t.Context(), tx, state, part...), refused) })
					if !errors.Is(err, refused) {
						t.Errorf("end %d members: %v", size, err)
					}
				}
			})
		}
		busy.Wait()
		counts := task.Group{Name: name}
		for _, state := range []struct {
			state task.State
			n     *int
		}{{task.Done, &counts.Done}, {task.Dead, &counts.Dead}, {task.Cancelled, &counts.Cancelled}} {
			*state.n = w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE group_name = ? AND state = ?", name, int(state.state))
		}
		want(t, "members that have ended", counts.Done+counts.Dead+counts.Cancelled, each)
		w.wantFollower(t, id, counts)
		counts.Sealed = true
		w.wantGroup(t, counts)
	}
	want(t, "followers", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE kind = ?", sum.Name()), groups)
}

// Two transactions each end the last member of a part: the second one waits until it can see the first one's end.
func TestLastTwoMembersEndSideBySide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made, id := w.group(t, "pair", members(group.Parts), task.Then(follower()))
	for _, ended := range made[2:] {
		w.end(t, task.Done, ended)
	}
	var second sync.WaitGroup
	pipelinetest.Must(t, w.InTx(t.Context(), func(tx *schedule.Tx) error {
		if err := end(t.Context(), tx, task.Done, made[0]); err != nil {
			return err
		}
		if err := insideOf(tx).Ledger().CountGroups(t.Context()); err != nil {
			return err
		}
		second.Go(func() {
			err := w.InTx(t.Context(), func(tx *schedule.Tx) error { return end(t.Context(), tx, task.Dead, made[1]) })
			if err != nil {
				t.Errorf("end the second of two members: %v", err)
			}
		})
		pipelinetest.Await(t, "the second one waits for the first", func() bool { return pipelinetest.LockWaits(t, w.store.DB()) > 0 })
		return nil
	}))
	second.Wait()
	w.wantFollower(t, id, task.Group{Name: "pair", Done: group.Parts - 1, Dead: 1})
	w.wantGroup(t, task.Group{Name: "pair", Done: group.Parts - 1, Dead: 1, Sealed: true})
}

// cmp2 is the first error.
func cmp2(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

func TestGroupWaitsForItsSeal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	made, id := w.group(t, "open", members(1), task.Follower{Spec: follower(), Open: true})
	w.end(t, task.Done, made...)
	if w.exists(t, id) {
		t.Fatal("the follower of an open group is there")
	}
	var more []task.Task
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) (err error) {
		if more, err = tx.AddToGroup(ctx, "open", members(2)); err != nil {
			return err
		}
		return tx.SealGroup(ctx, "open")
	}))
	w.end(t, task.Cancelled, more[0])
	w.wantGroup(t, task.Group{Name: "open", Open: 1, Done: 1, Cancelled: 1, Sealed: true})
	w.end(t, task.Done, more[1])
	w.wantFollower(t, id, task.Group{Name: "open", Done: 2, Cancelled: 1})

	_, empty := w.group(t, "empty", nil, task.Then(follower()))
	w.wantFollower(t, empty, task.Group{Name: "empty"})
	_, late := w.group(t, "late", nil, task.Follower{Spec: follower().WithWhen(task.In(time.Hour)), Open: true})
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) error { return tx.SealGroup(ctx, "late") }))
	row := w.wantFollower(t, late, task.Group{Name: "late"})
	want(t, "from the end to the follower", row.DueAt.Sub(row.CreatedAt), time.Hour)
	at := row.CreatedAt.Add(48 * time.Hour)
	_, fixed := w.group(t, "fixed", nil, task.Then(follower().WithWhen(task.At(at))))
	if got := w.wantFollower(t, fixed, task.Group{Name: "fixed"}).DueAt; !got.Equal(at) {
		t.Errorf("a follower at a moment is due at %v, want %v", got, at)
	}
}

// What a group refuses changes nothing, and its transaction may go on.
func TestGroupRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	made, id := w.group(t, "taken", members(1), task.Then(follower()))
	w.group(t, "open", nil, task.Follower{Spec: follower(), Open: true})
	_, err := w.BlockOwner(ctx, "banned")
	pipelinetest.Must(t, err)
	before := w.store.Number("SELECT COUNT(*) FROM duetime_tasks")
	group := func(name string, specs []task.Spec, then task.Spec) func(*schedule.Tx) error {
		return func(tx *schedule.Tx) error {
			_, err := tx.Group(ctx, name, specs, task.Then(then))
			return err
		}
	}
	add := func(name string) func(*schedule.Tx) error {
		return func(tx *schedule.Tx) error {
			_, err := tx.AddToGroup(ctx, name, members(1))
			return err
		}
	}
	number := task.NewKind[int]("number")
	one := meal.New("ann", 1, task.In(0))
	large := sum.New("office", report{Month: strings.Repeat("x", task.MaxPayload-70)}, task.In(0))
	for what, c := range map[string]struct {
		call func(*schedule.Tx) error
		want string
	}{
		"no name":     {group("", nil, follower()), "group must be 1 to 64 bytes"},
		"long name":   {group(strings.Repeat("x", 65), nil, follower()), "group must be 1 to 64 bytes"},
		"taken":       {group("taken", members(2), follower()), "group taken: name is taken"},
		"other":       {group("taken", nil, follower(task.WithID(id)).WithPayload(report{Month: "June"})), "group taken: name is taken"},
		"later":       {group("taken", nil, follower(task.WithID(id)).WithWhen(task.In(time.Hour))), "group taken: name is taken"},
		"its id":      {group("a", members(2), follower(task.WithID(made[0].ID))), "follower: task " + made[0].ID.String() + " is there already"},
		"member's id": {group("a", []task.Spec{one}, follower(task.WithID(one.ID()))), "follower: task " + one.ID().String() + " is there already"},
		"key":         {group("a", members(2), follower(task.Key("k"))), "follower: key must not be set: a group has one follower"},
		"no object":   {group("a", nil, number.New("office", 7, task.In(0))), `follower: payload must be a JSON object: the group's counts become its field "group"`},
		"too large":   {group("a", nil, large), "follower: payload must be at most 4096 bytes of JSON with the group that is added to it"},
		"no owner":    {group("a", nil, sum.New("", report{}, task.In(0))), "follower: owner must be 1 to 64 bytes"},
		"bad member":  {group("a", []task.Spec{meal.New("", 1, task.In(0))}, follower()), "owner must be 1 to 64 bytes"},
		"many":        {group("a", members(task.MaxPerCall+1), follower()), "tasks must be at most 1000 in one call"},
		"blocked":     {group("a", nil, sum.New("banned", report{}, task.In(0))), "schedule for owner banned: owner is blocked"},
		"its label":   {group("a", []task.Spec{meal.New("ann", 1, task.In(0), task.Label("duetime.group", "b"))}, follower()), "label duetime.group must not be given"},
		"sealed":      {add("taken"), "add to group taken: group is sealed"},
		"none":        {add("none"), "group none: group not found"},
		"none sealed": {func(tx *schedule.Tx) error { return tx.SealGroup(ctx, "none") }, "group none: group not found"},
		"sealed here": {func(tx *schedule.Tx) error { return cmp2(tx.SealGroup(ctx, "open"), add("open")(tx)) }, "add to group open: group is sealed"},
	} {
		var refused error
		pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) error {
			refused = c.call(tx)
			return nil
		}))
		if refused == nil || !strings.Contains(refused.Error(), c.want) {
			t.Errorf("%s: %v, want %s", what, refused, c.want)
		}
	}
	want(t, "tasks", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE kind <> ?", sum.Name()), before)
	want(t, "groups", w.store.Number("SELECT COUNT(*) FROM duetime_groups"), 2)
	_, err = w.GetGroup(ctx, "none")
	wantIs(t, err, task.ErrNoGroup)
	for what, c := range map[error]string{task.ErrNameTaken: "taken", task.ErrGroupSealed: "sealed"} {
		err := w.InTx(ctx, group("taken", nil, follower()))
		if c == "sealed" {
			err = w.InTx(ctx, add("taken"))
		}
		wantIs(t, err, what)
	}
}

// A task that had the key is no member, and nothing is made beside it.
func TestGroupWantsNewTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.make(t, "ann", task.Key("k"))
	err := w.InTx(t.Context(), func(tx *schedule.Tx) error {
		_, err := tx.Group(t.Context(), "g", append(members(1), meal.New("ann", 1, task.In(0), task.Key("k"))), task.Then(follower()))
		if !errors.Is(err, task.ErrKeyTaken) {
			t.Errorf("a key that is taken: %v", err)
		}
		return nil // passes over it
	})
	wantIs(t, err, task.ErrKeyTaken)
	_, err = w.GetGroup(t.Context(), "g")
	wantIs(t, err, task.ErrNoGroup)
}

// A call that is repeated, as after a lost answer, makes nothing more.
func TestGroupIsRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	specs, then := members(3), task.Then(follower())
	first, id := w.group(t, "g", specs, then)
	again, _ := w.group(t, "g", specs, then)
	if d := cmp.Diff(protocol.IDs(first), protocol.IDs(again)); d != "" {
		t.Errorf("members of the repeated call (-first +repeated):\n%s", d)
	}
	w.wantGroup(t, task.Group{Name: "g", Open: 3, Sealed: true})
	w.end(t, task.Done, first...)
	w.wantFollower(t, id, task.Group{Name: "g", Done: 3})
	w.group(t, "g", specs, then) // its follower is there by now
	w.wantFollower(t, id, task.Group{Name: "g", Done: 3})
}

// A call is repeated also if the keys of payloads were rotated since.
func TestGroupIsRepeatedWithAnotherKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	newest := "k1"
	secret := task.NewKind[report]("report.secret", encrypt.Payloads(func(id string) (encrypt.Key, error) {
		if id == "" {
			id = newest
		}
		return encrypt.Key{ID: id, Secret: []byte(id + strings.Repeat("x", 30))}, nil
	}))
	then := func() task.Spec { return secret.New("office", report{Month: "May"}, task.In(0)) }
	first := then()
	w.group(t, "g", nil, task.Follower{Spec: first, Open: true})
	newest = "k2"
	w.group(t, "g", nil, task.Follower{Spec: then().With(task.WithID(first.ID())), Open: true})
	w.wantGroup(t, task.Group{Name: "g"})
}

// spaced is a codec whose JSON is not as ours is written.
type spaced struct{}

func (spaced) Encode(_, _ string, payload []byte) ([]byte, error) {
	return append([]byte("{ "), bytes.ReplaceAll(payload[1:], []byte(`\u003c`), []byte("<"))...), nil
}
func (spaced) Decode(_, _ string, payload []byte) ([]byte, error) { return payload, nil }

// A call is repeated also if a codec writes JSON in another way.
func TestGroupIsRepeatedWithAnotherForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	type month struct { // without a group, with which the payload would be written anew before it is compared
		Month string `json:"month"`
	}
	then := task.NewKind[month]("report.spaced", func(k *task.KindInfo) { k.Codec = spaced{} }).New("office", month{"<May"}, task.In(0))
	for range 2 {
		w.group(t, "g", nil, task.Follower{Spec: then, Open: true})
	}
	w.wantGroup(t, task.Group{Name: "g"})
}

// Whoever adds while somebody seals has added before, or is refused.
func TestSealRefusesWhatIsBeingAdded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	_, id := w.group(t, "g", nil, task.Follower{Spec: follower(), Open: true})
	tries := 0
	err := w.InTx(ctx, func(tx *schedule.Tx) error {
		_, err := tx.AddToGroup(ctx, "g", members(1))
		if tries++; tries == 1 {
			pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) error { return tx.SealGroup(ctx, "g") }))
		}
		return err
	})
	wantIs(t, err, task.ErrGroupSealed)
	want(t, "tries", tries, 2)
	w.wantFollower(t, id, task.Group{Name: "g"})
}

// A rollback to a savepoint takes the counts back with the rows.
func TestGroupFollowsSavepoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	made, id := w.group(t, "g", members(2), task.Then(follower()))
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) error {
		for i, statement := range []string{"SAVEPOINT a", "ROLLBACK TO SAVEPOINT a"} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
			if err := end(ctx, tx, task.Done, made[i]); err != nil {
				return err
			}
		}
		return nil
	}))
	w.wantGroup(t, task.Group{Name: "g", Open: 1, Done: 1, Sealed: true})
	w.end(t, task.Done, made[0])
	w.wantFollower(t, id, task.Group{Name: "g", Done: 2})
}

// A transaction that its caller commits counts behind each change, so that its own savepoints and its own commit do.
func TestGroupInJoinedTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	db := foreign(t, w)
	then := follower()
	own := begin(t, db)
	j := w.Join(own)
	made, err := j.Group(ctx, "g", members(2), task.Then(then))
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, j.Commit(ctx))
	w.wantGroup(t, task.Group{Name: "g", Open: 2, Sealed: true})

	own = begin(t, db)
	j = w.Join(own)
	pipelinetest.Must(t, end(ctx, j.Tx, task.Done, made[0]))
	_, err = own.ExecContext(ctx, "SAVEPOINT mine")
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, end(ctx, j.Tx, task.Cancelled, made[1]))
	_, err = own.ExecContext(ctx, "ROLLBACK TO SAVEPOINT mine")
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, own.Commit())
	pipelinetest.Must(t, j.Index(ctx))
	w.wantGroup(t, task.Group{Name: "g", Open: 1, Done: 1, Sealed: true})

	own = begin(t, db)
	j = w.Join(own)
	for _, step := range []struct {
		statement string
		state     task.State
	}{{"SAVEPOINT ours", task.Cancelled}, {"ROLLBACK TO SAVEPOINT ours", task.Dead}} { // which the Joined follows
		_, err = j.ExecContext(ctx, step.statement)
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, end(ctx, j.Tx, step.state, made[1]))
	}
	pipelinetest.Must(t, j.Commit(ctx))
	w.wantFollower(t, then.ID(), task.Group{Name: "g", Done: 1, Dead: 1})
	if len(w.put(then.ID())) == 0 {
		t.Error("the follower was not put into the index")
	}
}

// A dead member that is retried is open again while the group is, and belongs to no group afterwards.
func TestRetryOfAMember(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made, id := w.group(t, "g", members(2), task.Then(follower()))
	w.end(t, task.Dead, made[0])
	w.end(t, task.Pending, made[0])
	w.end(t, task.Done, made[1])
	w.wantGroup(t, task.Group{Name: "g", Open: 1, Done: 1, Sealed: true})
	w.end(t, task.Dead, made[0])
	w.wantFollower(t, id, task.Group{Name: "g", Done: 1, Dead: 1})
	w.end(t, task.Pending, made[0])
	want(t, "group of a member that was retried after the end", w.store.Row(made[0].ID).Group, "")
	w.end(t, task.Done, made[0])
	w.wantGroup(t, task.Group{Name: "g", Done: 1, Dead: 1, Sealed: true})
	want(t, "followers", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE kind = ?", sum.Name()), 1)
}

// The last member ends whatever becomes of the follower.
func TestFollowerThatCannotBeMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	made, id := w.group(t, "blocked", members(1), task.Then(follower()))
	_, err := w.BlockOwner(ctx, "office")
	pipelinetest.Must(t, err)
	w.end(t, task.Done, made...)
	w.wantGroup(t, task.Group{Name: "blocked", Done: 1, Sealed: true, Note: "owner is blocked"})
	if w.exists(t, id) {
		t.Error("a blocked owner has a follower")
	}
	const line = "group blocked: 1 done, 0 dead, 0 cancelled; its follower was not scheduled: owner is blocked"
	want(t, "lines", w.store.Number("SELECT COUNT(*) FROM duetime_history WHERE event = 'follows' AND detail = ?", line), 1)

	pipelinetest.Must(t, w.UnblockOwner(ctx, "office"))
	made, id = w.group(t, "id", members(1), task.Then(follower()))
	taken := w.make(t, "ann", task.WithID(id))
	w.end(t, task.Done, made...)
	w.wantGroup(t, task.Group{Name: "id", Done: 1, Sealed: true, Note: "a task has its id"})
	want(t, "kind of the task that had the id", w.store.Row(taken.ID).Kind, meal.Name())
}

// InChange and OnChange see the follower, and what InChange ends is counted too.
func TestHooksSeeTheFollower(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	made, id := w.group(t, "g", members(2), task.Then(follower()))
	var seen, heard []task.ID
	told := make(chan struct{})
	c, _ := w.client(t, schedule.Config{
		InChange: func(ctx context.Context, tx *schedule.Tx, changes []schedule.Change) error {
			for _, c := range changes {
				seen = append(seen, c.After.ID)
			}
			if len(changes) == 1 {
				return end(ctx, tx, task.Done, made[1])
			}
			return nil
		},
		OnChange: func(_ context.Context, changes []schedule.Change) {
			for _, c := range changes {
				heard = append(heard, c.After.ID)
			}
			close(told)
		},
	})
	_, err := c.Cancel(ctx, made[0].ID)
	pipelinetest.Must(t, err)
	<-told
	if d := cmp.Diff([]task.ID{made[0].ID}, seen); d != "" {
		t.Errorf("InChange saw (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]task.ID{made[0].ID, made[1].ID, id}, heard); d != "" {
		t.Errorf("OnChange heard of (-want +got):\n%s", d)
	}
	w.wantFollower(t, id, task.Group{Name: "g", Done: 1, Cancelled: 1})
	made, id = w.group(t, "last", members(1), task.Then(follower()))
	seen = nil
	c, _ = w.client(t, schedule.Config{InChange: func(_ context.Context, _ *schedule.Tx, changes []schedule.Change) error {
		for _, c := range changes {
			seen = append(seen, c.After.ID)
		}
		return nil
	}})
	_, err = c.Cancel(ctx, made[0].ID)
	pipelinetest.Must(t, err)
	if d := cmp.Diff([]task.ID{made[0].ID, id}, seen); d != "" {
		t.Errorf("InChange saw of the last end (-want +got):\n%s", d)
	}
}
