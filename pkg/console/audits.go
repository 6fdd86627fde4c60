package console

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/duetime/duetime/pkg/console/internal/views"
	"github.com/duetime/duetime/pkg/task"
)

// maxAudit bounds the lines of an AuditPage.
const maxAudit = 1000

const (
	auditScan = 5000 // lines that one call reads to find those of an event
	auditRead = 500  // lines of one statement of these
)

// AuditQuery chooses what operators did; zero fields choose all.
type AuditQuery struct {
	Actor string    // as the history has it: user@host, or who As says
	Event string    // one of the names in package task, such as protocol.EventCancelled
	From  time.Time // at this moment or after it
	To    time.Time // before this moment
	After string    // only lines after this place of the list, as AuditPage.Next names it
	Limit int       // of the page: 1 to 1000, default DefaultPage
}

// AuditLine is one act: a line of the history that an operator caused.
type AuditLine struct {
	AtMs   int64    `json:"at_ms"`
	Event  string   `json:"event"`
	Actor  string   `json:"actor"`
	Detail string   `json:"detail"`
	Task   *task.ID `json:"task_id,omitempty"` // or a recurrence, or an operation; nil if it concerns a queue, a shard, a leader
}

// AuditPage is a part of the list of acts.
type AuditPage struct {
	Lines []AuditLine `json:"lines"`
	Next  string      `json:"next,omitempty"` // AuditQuery.After of the next page; empty if this page is the last
	Cut   bool        `json:"cut,omitempty"`  // more than 200 operators have acted: acts of the others are left out
}

// Audit reads what operators did, the newest first: acts of actors with an @, among them services that use a console. An
// operation has a line for each task too. A page with an Event may have few lines, or none, and yet a Next: a call reads 5,000
// lines at most. A place in the list that is none is a *task.FieldError.
func (c *Console) Audit(ctx context.Context, q AuditQuery) (page AuditPage, err error) {
	page.Lines = []AuditLine{}
	rows := views.ActQuery{Actors: []string{q.Actor}, From: q.From, To: q.To}
	limit, err := checkLimit(cmp.Or(q.Limit, DefaultPage), maxAudit)
	if err != nil {
		return page, err
	}
	if rows.After, err = parseActCursor(q.After); err != nil {
		return page, err
	}
	if q.Actor == "" {
		if rows.Actors, page.Cut, err = c.views.Operators(ctx); err != nil {
			return page, err
		}
	}
	if rows.Limit = limit + 1; q.Event != "" { // the additional line shows that another page follows
		rows.Limit = auditRead
	}
	for read := 0; read < auditScan; read += rows.Limit {
		acts, err := c.views.Acts(ctx, rows)
		if err != nil {
			return page, err
		}
		for _, act := range acts {
			if len(page.Lines) == limit {
				page.Next = formatActCursor(rows.After)
				return page, nil
			}
			rows.After = views.ActCursor{At: act.At, Seq: act.Seq}
			if q.Event == "" || act.Name == q.Event {
				page.Lines = append(page.Lines, auditLine(act))
			}
		}
		if len(acts) < rows.Limit {
			return page, nil
		}
	}
	page.Next = formatActCursor(rows.After)
	return page, nil
}

func auditLine(a views.Act) AuditLine {
	line := AuditLine{AtMs: a.At.UnixMilli(), Event: a.Name, Actor: a.Actor, Detail: a.Detail}
	if !a.Task.IsZero() {
		line.Task = &a.Task
	}
	return line
}

// A cursor of the list of acts is the moment in Unix ms, and the number of the line.
func formatActCursor(p views.ActCursor) string {
	return strconv.FormatInt(p.At.UnixMilli(), 10) + cursorMark + strconv.FormatInt(p.Seq, 10)
}

func parseActCursor(text string) (views.ActCursor, error) {
	if text == "" {
		return views.ActCursor{}, nil
	}
	at, seq, _ := strings.Cut(text, cursorMark)
	ms, err := strconv.ParseInt(at, 10, 64)
	number, wrong := strconv.ParseInt(seq, 10, 64)
	if err != nil || wrong != nil {
		return views.ActCursor{}, errPlace
	}
	return views.ActCursor{At: time.UnixMilli(ms), Seq: number}, nil
}
