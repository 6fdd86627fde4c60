package api_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/duetime/duetime/internal/api"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
)

// list reads a page of a list of one row a page, and returns what names its rows.
type list func(t *testing.T, c clients, cursor string) (names []string, next string, err error)

func listBlocked(t *testing.T, c clients, cursor string) (names []string, next string, err error) {
	t.Helper()
	page, err := c.ListBlockedOwners(t.Context(), &v1.ListBlockedOwnersRequest{Limit: 1, Cursor: cursor})
	for _, o := range page.GetOwners() {
		names = append(names, o.GetOwner())
	}
	return names, page.GetNextCursor(), err
}

func listGroups(t *testing.T, c clients, cursor string) (names []string, next string, err error) {
	t.Helper()
	page, err := c.ListGroups(t.Context(), &v1.ListGroupsRequest{Limit: 1, Cursor: cursor})
	for _, g := range page.GetGroups() {
		names = append(names, g.GetName())
	}
	return names, page.GetNextCursor(), err
}

func listMails(t *testing.T, c clients, cursor string) (names []string, next string, err error) {
	t.Helper()
	page, err := c.List(t.Context(), &v1.ListRequest{Kind: "mail", Limit: 1, Cursor: cursor})
	for _, row := range page.GetTasks() {
		names = append(names, row.GetOwner())
	}
	return names, page.GetNextCursor(), err
}

// Cursors show a token nothing that is outside of its scope, and lead through the list by any process.
func TestCursorsInScope(t *testing.T) {
	t.Parallel()
	tokens := []api.Token{
		callerOf("all", api.RoleOperate, nil, nil), callerOf("owners", api.RoleRead, []string{"shop-*"}, nil),
		callerOf("kinds", api.RoleRead, nil, []string{"mail"}),
	}
	w := newWorld(t, tokens...)
	other, ctx := serve(t, w.pipeline, tokens), t.Context()
	all := w.dial(t, tokenOf("all"))
	outside := []string{"customer-8"}
	for _, owner := range []string{"customer-8", "shop-1", "shop-2"} {
		_, err := all.MakeGroup(ctx, makeGroup(owner, owner, true))
		pipelinetest.Must(t, err)
		_, err = all.BlockOwner(ctx, &v1.BlockOwnerRequest{Owner: owner})
		pipelinetest.Must(t, err)
	}
	mail := newTask("ann")
	mail.Kind, mail.Due = "mail", &v1.NewTask_DueIn{DueIn: durationpb.New(time.Minute)}
	all.make(t, mail)
	made, err := all.ScheduleMany(ctx, &v1.ScheduleManyRequest{Tasks: slices.Repeat([]*v1.NewTask{newTask("bob")}, 600)})
	pipelinetest.Must(t, err)
	for _, r := range made.GetResults() {
		outside = append(outside, r.GetTask().GetTaskId())
	}
	for name, c := range map[string]struct {
		token string
		read  list
		want  []string
	}{
		"blocked owners": {"owners", listBlocked, []string{"shop-1", "shop-2"}},
		"groups":         {"owners", listGroups, []string{"shop-1", "shop-2"}},
		"tasks":          {"kinds", listMails, []string{"ann"}},
	} {
		calls := []clients{w.dial(t, tokenOf(c.token)), other.dial(t, tokenOf(c.token))}
		var got, cursors []string
		for cursor := ""; len(cursors) == 0 || cursor != ""; cursors = append(cursors, cursor) {
			var names []string
			names, cursor, err = c.read(t, calls[len(cursors)%2], cursor)
			pipelinetest.Must(t, err)
			got = append(got, names...)
			shown, _ := base64.RawURLEncoding.DecodeString(cursor)
			if i := slices.IndexFunc(outside, func(o string) bool { return strings.Contains(cursor+string(shown), o) }); i >= 0 {
				t.Errorf("%s: the cursor %s shows %s", name, cursor, outside[i])
			}
		}
		if d := cmp.Diff(c.want, got); d != "" || len(cursors) < 2 {
			t.Errorf("%s in %d pages (-want +got):\n%s", name, len(cursors), d)
		}
		if name != "groups" { // its cursor is none of another list
			_, _, err := listGroups(t, calls[0], cursors[0])
			wantField(t, err, connect.CodeInvalidArgument, "cursor")
		}
		_, unsealed, err := c.read(t, all, "")
		pipelinetest.Must(t, err)
		for _, cursor := range []string{unsealed, "_"} {
			_, _, err := c.read(t, calls[0], cursor)
			wantField(t, err, connect.CodeInvalidArgument, "cursor")
		}
	}
}
