package consoleweb

import (
	"context"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// groupView is the data of the view: one group, or a page of all while none is named.
type groupView struct {
	Group  *console.Group
	Counts []groupCount
	Groups []console.Group
	Next   string // the next page's address
	Open   bool   // only groups that have not ended are listed
}

// groupCount is how many members are in a state, and the address of their list.
type groupCount struct {
	State string
	N     int
	List  string
}

func readGroup(ctx context.Context, v *visit) (any, error) {
	out := &groupView{Open: v.r.FormValue("open") != ""}
	if name := v.r.FormValue("name"); name != "" {
		g, err := v.c.Group(ctx, name)
		if err != nil {
			return nil, err
		}
		out.Group = &g
		for state, n := range []int{g.Open, g.Done, g.Cancelled, g.Dead} {
			text := task.State(state).String()
			out.Counts = append(out.Counts, groupCount{text, n, v.Link("tasks", "label", protocol.GroupLabel+"="+name, "state", text)})
		}
		return out, nil
	}
	groups, next, err := v.c.Groups(ctx, out.Open, v.r.FormValue("cursor"), console.DefaultPage)
	if err != nil {
		return nil, err
	}
	if out.Groups = groups; next != "" {
		out.Next = v.Link("group", "open", v.r.FormValue("open"), "cursor", next)
	}
	return out, nil
}
