package api_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/duetime/duetime/internal/api"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
)

// A caller who got no answer repeats the call with the same id: there is one operation, and it is found.
func TestOperationsAreRepeated(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, w *world, c clients, owner string) {
		ctx := t.Context()
		wanted := &v1.NewOperation{
			OperationId: uuid.NewString(), Verb: v1.Verb_VERB_SHIFT, By: durationpb.New(time.Hour), Filter: &v1.Filter{Owner: owner},
		}
		first, err := c.BeginOperation(ctx, &v1.BeginOperationRequest{Operation: wanted})
		pipelinetest.Must(t, err)
		if got := first.GetOperation().GetOperationId(); got != wanted.GetOperationId() {
			t.Errorf("got the id %s, want %s", got, wanted.GetOperationId())
		}
		before := w.state(t)
		second, err := c.BeginOperation(ctx, &v1.BeginOperationRequest{Operation: wanted})
		pipelinetest.Must(t, err)
		if !proto.Equal(first, second) {
			t.Errorf("the repeated call answers %v, the first was %v", second, first)
		}
		wanted.By = durationpb.New(2 * time.Hour)
		_, err = c.BeginOperation(ctx, &v1.BeginOperationRequest{Operation: wanted})
		wantCode(t, err, connect.CodeAlreadyExists, "ID_TAKEN")
		for _, id := range []string{"7", "00000000-0000-0000-0000-000000000000"} {
			wanted.OperationId = id
			_, err = c.BeginOperation(ctx, &v1.BeginOperationRequest{Operation: wanted})
			wantField(t, err, connect.CodeInvalidArgument, "operation.operation_id")
		}
		if after := w.state(t); after != before {
			t.Errorf("repeated and refused calls changed %v to %v", before, after)
		}
	})
}

// The newest operations come first, whatever their ids, and none of those outside of the token's scope.
func TestListOperations(t *testing.T) {
	t.Parallel()
	w := newWorld(t, callerOf("all", api.RoleOperate, nil, nil), callerOf("shop", api.RoleOperate, []string{"shop-*"}, nil))
	all, ctx := w.dial(t, tokenOf("all"), connect.WithGRPC()), t.Context()
	for i, id := range []string{
		"ffffffff-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002", "88888888-0000-4000-8000-000000000003",
	} {
		owner := []string{"shop-1", "ann", "shop-2"}[i]
		_, err := all.BeginOperation(ctx, &v1.BeginOperationRequest{Operation: &v1.NewOperation{
			OperationId: id, Verb: v1.Verb_VERB_CANCEL, Filter: &v1.Filter{Owner: owner},
		}})
		pipelinetest.Must(t, err)
		_, err = w.db().ExecContext(ctx, "UPDATE duetime_operations SET created_at = created_at - 1000")
		pipelinetest.Must(t, err)
	}
	for _, c := range []struct {
		caller string
		limit  int32
		want   []string // owners
	}{
		{"all", 0, []string{"shop-2", "ann", "shop-1"}},
		{"all", 2, []string{"shop-2", "ann"}},
		{"shop", 0, []string{"shop-2", "shop-1"}},
		{"shop", 1, []string{"shop-2"}},
	} {
		page, err := w.dial(t, tokenOf(c.caller)).ListOperations(ctx, &v1.ListOperationsRequest{Limit: c.limit})
		pipelinetest.Must(t, err)
		var owners []string
		for _, o := range page.GetOperations() {
			owners = append(owners, o.GetFilter().GetOwner())
		}
		if d := cmp.Diff(c.want, owners); d != "" {
			t.Errorf("%s, limit %d (-want +got):\n%s", c.caller, c.limit, d)
		}
	}
	_, err := all.ListOperations(ctx, &v1.ListOperationsRequest{Limit: 1001})
	wantField(t, err, connect.CodeInvalidArgument, "limit")
}
