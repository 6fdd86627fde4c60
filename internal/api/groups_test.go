package api_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/duetime/duetime/internal/api"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
	"github.com/duetime/duetime/pkg/task"
)

// makeGroup makes a group whose follower is of the owner.
func makeGroup(name, owner string, open bool, members ...*v1.NewTask) *v1.MakeGroupRequest {
	return &v1.MakeGroupRequest{Name: name, Members: members, Follower: newTask(owner), Open: open}
}

// A group is made, filled and sealed; its follower comes with the end of its last member.
func TestGroups(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, w *world, c clients, owner string) {
		ctx, name := t.Context(), "of "+owner
		r := makeGroup(name, owner, true, newTask(owner))
		r.Follower.OrderKey = "city-17"
		made, err := c.MakeGroup(ctx, r)
		pipelinetest.Must(t, err)
		if g := made.GetGroup(); g.GetOpen() != 1 || g.GetSealed() || g.GetFollowerOwner() != owner || len(made.GetTaskIds()) != 1 {
			t.Errorf("made is %v", made)
		}
		added, err := c.AddToGroup(ctx, &v1.AddToGroupRequest{Name: name, Members: []*v1.NewTask{newTask(owner), newTask(owner)}})
		pipelinetest.Must(t, err)
		members := slices.Concat(made.GetTaskIds(), added.GetTaskIds())
		for range 2 { // it may be repeated
			_, err = c.SealGroup(ctx, &v1.SealGroupRequest{Name: name})
			pipelinetest.Must(t, err)
		}
		listed, err := c.List(ctx, &v1.ListRequest{Labels: map[string]string{"duetime.group": name}, State: v1.State_STATE_PENDING})
		if pipelinetest.Must(t, err); len(listed.GetTasks()) != 3 || listed.GetTasks()[0].GetGroup() != name {
			t.Errorf("members are %v", listed)
		}
		before := w.state(t)
		_, err = c.AddToGroup(ctx, &v1.AddToGroupRequest{Name: name, Members: []*v1.NewTask{newTask(owner)}})
		wantCode(t, err, connect.CodeFailedPrecondition, "GROUP_SEALED")
		_, err = c.MakeGroup(ctx, makeGroup(name, owner, false, newTask(owner)))
		wantCode(t, err, connect.CodeAlreadyExists, "NAME_TAKEN")
		if after := w.state(t); after != before {
			t.Errorf("refused calls changed %v to %v", before, after)
		}
		for _, id := range members {
			_, err := c.Cancel(ctx, &v1.CancelRequest{TaskId: id})
			pipelinetest.Must(t, err)
		}
		got, err := c.GetGroup(ctx, &v1.GetGroupRequest{Name: name})
		if pipelinetest.Must(t, err); got.GetGroup().GetCancelled() != 3 || got.GetGroup().GetEndedAt() == nil || got.GetGroup().GetOpen() != 0 {
			t.Errorf("group is %v, want it ended, with 3 cancelled members", got)
		}
		follower, err := c.Get(ctx, &v1.GetRequest{TaskId: got.GetGroup().GetFollowerId()})
		pipelinetest.Must(t, err)
		if n := follower.GetTask().GetPayload().GetStructValue().GetFields()["group"].GetStructValue().GetFields()["cancelled"].GetNumberValue(); n != 3 {
			t.Errorf("the follower's payload is %v, want 3 cancelled in it", follower.GetTask().GetPayload())
		}
		if key := follower.GetTask().GetOrderKey(); key != "city-17" {
			t.Errorf("the follower's order key is %q, want city-17", key)
		}
		for _, open := range []bool{false, true} {
			page, err := c.ListGroups(ctx, &v1.ListGroupsRequest{Open: open})
			pipelinetest.Must(t, err)
			if slices.ContainsFunc(page.GetGroups(), func(g *v1.Group) bool { return g.GetName() == name }) == open {
				t.Errorf("groups, open %v: %v; the group has ended", open, page)
			}
		}
	})
}

// A call with the follower's id may be repeated, also where nothing names its members.
func TestMakeGroupIsRepeated(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, w *world, c clients, owner string) {
		named, once := newTask(owner), newTask(owner)
		named.TaskId, once.IdempotencyKey = task.NewID().String(), "once"
		r := makeGroup("of "+owner, owner, true, newTask(owner), newTask(owner), named, once)
		r.Follower.TaskId = task.NewID().String()
		first, err := c.MakeGroup(t.Context(), r)
		pipelinetest.Must(t, err)
		if id := first.GetTaskIds()[2]; id != named.GetTaskId() {
			t.Errorf("the member %s was made as %s", named.GetTaskId(), id)
		}
		before := w.state(t)
		for _, open := range []bool{true, false, false} { // the second call seals it too
			r.Open = open
			again, err := c.MakeGroup(t.Context(), r)
			if pipelinetest.Must(t, err); !slices.Equal(first.GetTaskIds(), again.GetTaskIds()) || again.GetGroup().GetOpen() != 4 ||
				again.GetGroup().GetSealed() == open {
				t.Errorf("open %v: repeated, %v is %v", open, first, again)
			}
		}
		if after := w.state(t); after != before {
			t.Errorf("repeated calls changed %v to %v", before, after)
		}
		r.Members[1].Payload = nil
		_, err = c.MakeGroup(t.Context(), r)
		wantTaken(t, err, "members[1].task_id")
	})
}

// Another follower is refused under the id of the one that a group has, and so is one with the id of a task.
func TestMakeGroupOfAnotherFollower(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, w *world, c clients, owner string) {
		ctx, name := t.Context(), "of "+owner
		r := makeGroup(name, owner, true)
		r.Follower.TaskId = task.NewID().String()
		_, err := c.MakeGroup(ctx, r)
		pipelinetest.Must(t, err)
		before := w.state(t)
		for what, differ := range map[string]func(f *v1.NewTask){
			"owner":   func(f *v1.NewTask) { f.Owner = "ann" },
			"kind":    func(f *v1.NewTask) { f.Kind = "mail.send" },
			"payload": func(f *v1.NewTask) { f.Payload = structpb.NewStructValue(&structpb.Struct{}) },
			"due":     func(f *v1.NewTask) { f.Due = &v1.NewTask_DueIn{DueIn: durationpb.New(time.Minute)} },
			"labels":  func(f *v1.NewTask) { f.Labels = map[string]string{"tier": "gold"} },
		} {
			other := makeGroup(name, owner, false, newTask(owner))
			other.Follower.TaskId = r.GetFollower().GetTaskId()
			differ(other.GetFollower())
			if _, err := c.MakeGroup(ctx, other); connect.CodeOf(err) != connect.CodeAlreadyExists || reasonOf(t, err).GetReason() != "NAME_TAKEN" {
				t.Errorf("another %s: %v", what, err)
			}
		}
		got, err := c.GetGroup(ctx, &v1.GetGroupRequest{Name: name})
		if pipelinetest.Must(t, err); got.GetGroup().GetOpen() != 0 || got.GetGroup().GetSealed() || w.state(t) != before {
			t.Errorf("refused calls changed the group to %v, or tasks", got)
		}
		taken := makeGroup("another "+name, owner, true)
		taken.Follower.TaskId = c.make(t, newTask(owner)).GetTaskId()
		_, err = c.MakeGroup(ctx, taken)
		wantTaken(t, err, "follower.task_id")
		_, err = c.GetGroup(ctx, &v1.GetGroupRequest{Name: taken.GetName()})
		wantCode(t, err, connect.CodeNotFound, "NO_GROUP")
	})
}

func TestGroupInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, ctx := w.dial(t, "", connect.WithGRPC()), t.Context()
	noOwner := newTask("")
	follower := func(change func(f *v1.NewTask)) *v1.MakeGroupRequest {
		r := makeGroup("g", "ann", false)
		change(r.GetFollower())
		return r
	}
	for field, r := range map[string]*v1.MakeGroupRequest{
		"follower.payload":         follower(func(f *v1.NewTask) { f.Payload = structpb.NewListValue(&structpb.ListValue{}) }),
		"follower.payload_json":    follower(func(f *v1.NewTask) { f.Payload, f.PayloadJson = nil, `{"x":"`+strings.Repeat("x", 4070)+`"}` }),
		"follower.key":             follower(func(f *v1.NewTask) { f.Key = "k" }),
		"follower.idempotency_key": follower(func(f *v1.NewTask) { f.IdempotencyKey = "k" }),
		"name":                     makeGroup("", "ann", false),
		"follower":                 {Name: "g"},
		"follower.owner":           {Name: "g", Follower: noOwner},
		"members[1].owner":         makeGroup("g", "ann", false, newTask("ann"), noOwner),
		"members":                  makeGroup("g", "ann", false, slices.Repeat([]*v1.NewTask{newTask("ann")}, 1001)...),
	} {
		_, err := c.MakeGroup(ctx, r)
		wantField(t, err, connect.CodeInvalidArgument, field)
	}
	_, err := c.AddToGroup(ctx, &v1.AddToGroupRequest{Name: "g"})
	wantField(t, err, connect.CodeInvalidArgument, "members")
	_, err = c.GetGroup(ctx, &v1.GetGroupRequest{Name: "g"})
	wantCode(t, err, connect.CodeNotFound, "NO_GROUP")
	_, err = c.SealGroup(ctx, &v1.SealGroupRequest{Name: strings.Repeat("x", 65)})
	wantField(t, err, connect.CodeInvalidArgument, "name")
}

// A token makes groups within its scope, and sees those whose follower it sees.
func TestGroupsInScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t, callerOf("all", api.RoleOperate, nil, nil), callerOf("owners", api.RoleSchedule, []string{"shop-*"}, nil))
	ctx := t.Context()
	all, shop := w.dial(t, tokenOf("all")), w.dial(t, tokenOf("owners"))
	others, err := all.MakeGroup(ctx, makeGroup("others", "ann", true))
	pipelinetest.Must(t, err)
	_, err = shop.MakeGroup(ctx, makeGroup("own", "shop-1", true))
	pipelinetest.Must(t, err)
	_, err = shop.MakeGroup(ctx, makeGroup("g", "ann", true))
	wantCode(t, err, connect.CodePermissionDenied, "OUT_OF_SCOPE")
	_, err = shop.AddToGroup(ctx, &v1.AddToGroupRequest{Name: "own", Members: []*v1.NewTask{newTask("ann")}})
	wantCode(t, err, connect.CodePermissionDenied, "OUT_OF_SCOPE")
	_, err = shop.AddToGroup(ctx, &v1.AddToGroupRequest{Name: "others", Members: []*v1.NewTask{newTask("shop-1")}})
	wantCode(t, err, connect.CodeNotFound, "NO_GROUP")
	own := makeGroup("others", "shop-1", false, newTask("shop-1"))
	own.Follower.TaskId = others.GetGroup().GetFollowerId()
	_, err = shop.MakeGroup(ctx, own)
	wantCode(t, err, connect.CodeAlreadyExists, "NAME_TAKEN")
	_, err = shop.SealGroup(ctx, &v1.SealGroupRequest{Name: "others"})
	wantCode(t, err, connect.CodeNotFound, "NO_GROUP")
	_, err = shop.GetGroup(ctx, &v1.GetGroupRequest{Name: "others"})
	wantCode(t, err, connect.CodeNotFound, "NO_GROUP")
	page, err := shop.ListGroups(ctx, &v1.ListGroupsRequest{})
	if pipelinetest.Must(t, err); len(page.GetGroups()) != 1 || page.GetGroups()[0].GetName() != "own" {
		t.Errorf("the token sees %v, want its own group", page)
	}
}
