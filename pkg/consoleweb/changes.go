package consoleweb

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

const (
	auditLines      = 100
	shownOperations = 20
)

// changesView is the data of the view: mass changes, and what operators did.
type changesView struct {
	Operations             []console.Operation
	Actor, Event, From, To string
	Events                 []string
	Page                   console.AuditPage
	Lines                  []actLine // the page's, but one for all tasks of a mass change that follow each other
	Next, First            string
}

// actLine is what an operator did to one task, to those of a mass change, or to none.
type actLine struct {
	console.AuditLine

	At        clock
	Operation string // the mass change; empty: none
	Tasks     int
}

// auditEvents are what operators do.
func auditEvents() []string {
	return []string{
		protocol.EventMoved, protocol.EventCancelled, protocol.EventRetried, protocol.EventDiscarded, protocol.EventRequeued, protocol.EventPaused,
		protocol.EventResumed, protocol.EventLimited, protocol.EventResign, protocol.EventRebuild, protocol.EventShards, protocol.EventBegun,
		protocol.EventStopped, protocol.EventExtra, protocol.EventImported, protocol.EventBlocked, protocol.EventUnblocked,
		protocol.EventAdded, protocol.EventRetired,
	}
}

func readChanges(ctx context.Context, v *visit) (any, error) {
	get := func(name string) string { return strings.TrimSpace(v.r.FormValue(name)) }
	out := &changesView{Actor: get("actor"), Event: get("event"), From: get("from"), To: get("to"), Events: auditEvents()}
	all, err := v.c.Operations(ctx)
	if err != nil {
		return nil, err
	}
	out.Operations = all[:min(len(all), shownOperations)]
	if v.r.FormValue("part") == "live" { // it shows the mass changes
		return out, nil
	}
	q := console.AuditQuery{Actor: out.Actor, Event: out.Event, After: get("cursor"), Limit: auditLines}
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
	out.Lines = folded(out.Page.Lines)
	day := v.now.Format(time.DateOnly)
	for i, line := range out.Lines {
		out.Lines[i].At = v.clock(line.AtMs, day)
		day = time.UnixMilli(line.AtMs).In(v.zone).Format(time.DateOnly)
	}
	pairs := []any{"actor", out.Actor, "event", out.Event, "from", out.From, "to", out.To}
	if out.Page.Next != "" {
		out.Next = v.Link("changes", append(pairs, "cursor", out.Page.Next)...)
	}
	if q.After != "" {
		out.First = v.Link("changes", pairs...)
	}
	return out, nil
}

var ofOperation = regexp.MustCompile(`(?:, |^)operation ([0-9a-f-]{36})$`)

// folded makes one line of those that follow each other and are of one mass change.
func folded(lines []console.AuditLine) (all []actLine) {
	for _, line := range lines {
		one := actLine{AuditLine: line, Tasks: 1}
		switch line.Event { // what they name is a recurrence or an operation
		case protocol.EventPaused, protocol.EventResumed, protocol.EventStopped:
			one.Task = nil
		case protocol.EventExtra:
			one.Task = nil
			if id, err := task.ParseID(strings.TrimPrefix(line.Detail, "task ")); err == nil {
				one.Task, one.Detail = &id, ""
			}
		}
		if m := ofOperation.FindStringSubmatch(line.Detail); m != nil {
			one.Operation, one.Detail = m[1], strings.TrimSuffix(line.Detail, m[0])
		}
		if n := len(all); n > 0 && one.Operation != "" && all[n-1].Operation == one.Operation && all[n-1].Event == one.Event {
			all[n-1].Tasks++
			continue
		}
		all = append(all, one)
	}
	return all
}
