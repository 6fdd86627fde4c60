package api_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/duetime/duetime/internal/api"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
)

// lasting is a pause of an owner.
func lasting(owner string, d time.Duration) *v1.PauseRequest {
	return &v1.PauseRequest{Owner: owner, End: &v1.PauseRequest_Duration{Duration: durationpb.New(d)}}
}

func TestPause(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, _ *world, c clients, owner string) {
		ctx := t.Context()
		made, err := c.Pause(ctx, lasting(owner, time.Hour))
		pipelinetest.Must(t, err)
		until := made.GetUntil()
		again, err := c.Pause(ctx, &v1.PauseRequest{Owner: owner, End: &v1.PauseRequest_Until{Until: timestamppb.New(until.AsTime().Add(-time.Minute))}})
		if pipelinetest.Must(t, err); !again.GetUntil().AsTime().Equal(until.AsTime()) {
			t.Errorf("a pause until %v ends at %v", until.AsTime(), again.GetUntil().AsTime())
		}
		narrow := lasting(owner, time.Hour)
		narrow.Kind, narrow.Queue = "tea", "reports"
		_, err = c.Pause(ctx, narrow)
		pipelinetest.Must(t, err)
		var seen []*v1.Paused
		for cursor := ""; ; {
			page, err := c.ListPauses(ctx, &v1.ListPausesRequest{Limit: 1, Cursor: cursor})
			pipelinetest.Must(t, err)
			seen = append(seen, page.GetPauses()...)
			if cursor = page.GetNextCursor(); cursor == "" {
				break
			}
		}
		if len(seen) != 2 || seen[0].GetOwner() != owner || seen[0].GetKind() != "" || seen[0].GetActor() != "loopback@api" ||
			!seen[0].GetUntil().AsTime().Equal(until.AsTime()) || seen[1].GetKind() != "tea" || seen[1].GetQueue() != "reports" {
			t.Errorf("listed: %v", seen)
		}
		for _, want := range []bool{true, false} {
			got, err := c.Resume(ctx, &v1.ResumeRequest{Owner: owner})
			if pipelinetest.Must(t, err); got.GetResumed() != want {
				t.Errorf("resumed %v, want %v", got.GetResumed(), want)
			}
		}
		_, err = c.Resume(ctx, &v1.ResumeRequest{Owner: owner, Kind: "tea", Queue: "reports"})
		pipelinetest.Must(t, err)
	})
}

func TestPauseIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, callerOf("admin", api.RoleOperate, nil, nil), callerOf("shop", api.RoleOperate, []string{"shop-*"}, []string{"tea"}))
	all, shop := w.dial(t, tokenOf("admin")), w.dial(t, tokenOf("shop"))
	ctx := t.Context()
	for name, request := range map[string]*v1.PauseRequest{
		"a whole queue": {Queue: "reports", End: &v1.PauseRequest_Duration{Duration: durationpb.New(time.Hour)}},
		"no end":        {Owner: "ann"}, "an end in the past": lasting("ann", -time.Hour), "a far end": lasting("ann", 32*24*time.Hour),
		"an unknown queue": {Owner: "ann", Queue: "meals", End: &v1.PauseRequest_Duration{Duration: durationpb.New(time.Hour)}},
	} {
		if _, err := all.Pause(ctx, request); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, request := range []*v1.PauseRequest{lasting("ann", time.Hour), lasting("shop-1", time.Hour)} { // of another owner, and of all kinds
		if _, err := shop.Pause(ctx, request); connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("%v: %v, want it out of scope", request, err)
		}
	}
	own := lasting("shop-1", time.Hour)
	own.Kind = "tea"
	_, err := shop.Pause(ctx, own)
	pipelinetest.Must(t, err)
	_, err = all.Pause(ctx, lasting("ann", time.Hour))
	pipelinetest.Must(t, err)
	page, err := shop.ListPauses(ctx, &v1.ListPausesRequest{})
	if pipelinetest.Must(t, err); len(page.GetPauses()) != 1 || page.GetPauses()[0].GetOwner() != "shop-1" {
		t.Errorf("a caller with a scope sees %v", page)
	}
}
