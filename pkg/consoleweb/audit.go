package consoleweb

import (
	"context"
	"strings"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/console"
)

const auditLines = 100

// auditView is the data of the view.
type auditView struct {
	Actor, Event, From, To string
	Events                 []string
	Page                   console.AuditPage
	Next, First            string
}

// auditEvents are what operators do.
func auditEvents() []string {
	return []string{
		protocol.EventMoved, protocol.EventCancelled, protocol.EventRetried, protocol.EventDiscarded, protocol.EventRequeued, protocol.EventPaused,
		protocol.EventResumed, protocol.EventLimited, protocol.EventResign, protocol.EventRebuild, protocol.EventShards, protocol.EventBegun,
		protocol.EventStopped, protocol.EventExtra, protocol.EventImported, protocol.EventBlocked, protocol.EventUnblocked,
	}
}

func readAudit(ctx context.Context, v *visit) (any, error) {
	get := func(name string) string { return strings.TrimSpace(v.r.FormValue(name)) }
	out := &auditView{Actor: get("actor"), Event: get("event"), From: get("from"), To: get("to"), Events: auditEvents()}
	q := console.AuditQuery{Actor: out.Actor, Event: out.Event, After: get("cursor"), Limit: auditLines}
	var err error
	if out.From != "" {
		if q.From, err = parseBound(out.From, v.now); err != nil {
			return out, err
		}
	}
	if out.To != "" {
		if q.To, err = parseBound(out.To, v.now); err != nil {
			return out, err
		}
	}
	if out.Page, err = v.c.Audit(ctx, q); err != nil {
		return out, err
	}
	pairs := []any{"actor", out.Actor, "event", out.Event, "from", out.From, "to", out.To}
	if out.Page.Next != "" {
		out.Next = v.Link("audit", append(pairs, "cursor", out.Page.Next)...)
	}
	if q.After != "" {
		out.First = v.Link("audit", pairs...)
	}
	return out, nil
}
