package chaos_test

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// push is a line of the endpoint's file.
type push struct {
	What  string // try, effect, answer (of 2xx), failure, forged
	ID    string
	At    int64 // Unix ms
	Sent  int64 // webhook-timestamp, in s
	Due   int64 // ce-time, in Unix ms
	Order string
}

// pending reports whether the worker still waited for the answer, so that it held the task's row. A request that is read later,
// as after a freeze, may be one that its worker has given up.
func (p push) pending() bool {
	return p.At < p.Sent*1000+(pushTimeout-500*time.Millisecond).Milliseconds()
}

// heldAt is a moment at which the worker held the task's row.
func (p push) heldAt() int64 {
	if p.pending() {
		return p.At
	}
	return p.Sent * 1000
}

// pushes is all that is known at the end of the tasks that are delivered by HTTP, by their ids.
type pushes struct {
	orders  map[string]*order
	lines   map[string][]push // in the order of the file
	rows    map[string]row    // run is the due time
	retries map[string][]retry
}

// retry is a line of the history: when a try failed, and before which moment there is no other one.
type retry struct{ at, until int64 }

// judgePushes adds what the shop, the endpoint and the tables tell to the verdict.
func (d *drill) judgePushes(t *testing.T, v *verdict, s *shop, r *receiver) {
	t.Helper()
	p := pushes{orders: s.orders(), lines: map[string][]push{}, rows: map[string]row{}, retries: map[string][]retry{}}
	text, err := os.ReadFile(r.file)
	pipelinetest.Must(t, err)
	for one := range strings.Lines(string(text)) {
		var l push
		pipelinetest.Must(t, json.Unmarshal([]byte(one), &l))
		p.lines[l.ID] = append(p.lines[l.ID], l)
	}
	d.readOrders(t, p)
	p.judge(v)
	d.notePushes(t, p)
}

func (d *drill) readOrders(t *testing.T, p pushes) {
	t.Helper()
	const both = `(SELECT id, kind, state, due_at FROM duetime_tasks UNION ALL SELECT id, kind, state, due_at FROM duetime_ended) AS rows_of_both`
	const id = `LOWER(INSERT(INSERT(INSERT(INSERT(HEX(id), 9, 0, '-'), 14, 0, '-'), 19, 0, '-'), 24, 0, '-'))`
	pipelinetest.Must(t, each(t.Context(), d.db, func(scan scan) error {
		var id string
		var r row
		err := scan(&id, &r.state, &r.run)
		p.rows[id] = r
		return err
	}, `SELECT `+id+`, state, due_at FROM `+both+` WHERE kind = ?`, orderKind))
	pipelinetest.Must(t, each(t.Context(), d.db, func(scan scan) error {
		var id, detail string
		var at int64
		if err := scan(&id, &at, &detail); err != nil {
			return err
		}
		wait, err := time.ParseDuration(waitOf(detail))
		p.retries[id] = append(p.retries[id], retry{at, at + wait.Milliseconds()})
		return err
	}, `SELECT `+id+`, at, detail FROM duetime_history JOIN `+both+` ON id = task
		WHERE kind = ? AND event IN ('failed', 'snoozed') ORDER BY seq`, orderKind))
}

// waitOf takes the time until the next try out of "for 2s" or "next try in 2s, attempt …".
func waitOf(detail string) string {
	detail, _, _ = strings.Cut(detail, ",")
	return detail[strings.LastIndexByte(detail, ' ')+1:]
}

// judge adds each way in which the tasks did not go as docs/PUSH.md promises.
func (p pushes) judge(v *verdict) {
	v.tasks += len(p.orders)
	for id, lines := range p.lines {
		if p.orders[id] == nil {
			add(&v.phantom, "task %s: was delivered, and never scheduled", id)
			continue
		}
		for _, l := range lines {
			switch l.What {
			case "forged":
				add(&v.phantom, "task %s: was delivered with a wrong signature", id)
			case "try":
				p.judgeTry(v, l)
			}
		}
	}
	for id, o := range p.orders {
		p.judgeEnd(v, id, o)
	}
}

// judgeTry compares one request with the changes and the failures before it.
func (p pushes) judgeTry(v *verdict, l push) {
	if l.Order != l.ID {
		add(&v.phantom, "task %s: was delivered with the payload of %q", l.ID, l.Order)
	}
	if l.At < l.Due {
		add(&v.early, "task %s: delivered %d ms early", l.ID, l.Due-l.At)
	}
	held, inForce := l.heldAt(), map[int64]bool{} // the due times that the task may have had
	for _, c := range p.orders[l.ID].changes {
		switch {
		case c.ended >= held:
			inForce[c.due] = inForce[c.due] || c.began <= l.At && !c.cancel
		case c.cancel:
			add(&v.afterCancel, "task %s: delivered %d ms after its cancel was acknowledged", l.ID, held-c.ended)
			return
		default:
			inForce = map[int64]bool{c.due: true}
		}
	}
	if !inForce[l.Due] {
		add(&v.stale, "task %s: delivered as due at %d, it had %v", l.ID, l.Due, inForce)
	}
	if last, ok := p.failureBefore(l); ok && l.At < last.until {
		add(&v.early, "task %s: tried again %d ms before the time of its retry", l.ID, last.until-l.At)
	}
}

// failureBefore returns the last failed try before a request, unless the task was moved since.
func (p pushes) failureBefore(l push) (last retry, ok bool) {
	for _, r := range p.retries[l.ID] {
		if r.at < l.At {
			last, ok = r, l.pending()
		}
	}
	for _, c := range p.orders[l.ID].changes {
		ok = ok && (c.ended < last.at || c.began > l.At)
	}
	return last, ok
}

// judgeEnd compares what became of a task with the effects and the answers.
func (p pushes) judgeEnd(v *verdict, id string, o *order) {
	r, stands := p.rows[id]
	effects, answered := 0, false
	for _, l := range p.lines[id] {
		switch l.What {
		case "effect":
			effects++
		case "answer":
			l.At += time.Second.Milliseconds() // until the worker has read it
			answered = answered || l.pending()
		}
	}
	v.effects += effects
	last := orderChange{}
	if len(o.changes) > 0 {
		last = o.changes[len(o.changes)-1]
	}
	switch {
	case effects > 1:
		add(&v.duplicate, "task %s: had %d effects by one id", id, effects)
	case !stands:
		add(&v.lost, "task %s: its row is gone", id)
	case r.state == revoked && !last.cancel:
		add(&v.lost, "task %s: cancelled by nobody", id)
	case r.state == revoked && answered:
		add(&v.afterCancel, "task %s: its cancel was acknowledged after an answer of 2xx", id)
	case r.state == revoked:
	case last.cancel:
		add(&v.afterCancel, "task %s: cancelled, and in state %d", id, r.state)
	case r.state != done:
		add(&v.lost, "task %s: in state %d at the end", id, r.state)
	case effects == 0:
		add(&v.lost, "task %s: done without an answer of 2xx", id)
	case r.run != last.due:
		add(&v.stale, "task %s: done as due at %d, it was moved to %d", id, r.run, last.due)
	}
}

// notePushes tells how hard the row was played.
func (d *drill) notePushes(t *testing.T, p pushes) {
	t.Helper()
	n := map[string]int{}
	for _, lines := range p.lines {
		lines = slices.SortedStableFunc(slices.Values(lines), func(a, b push) int { return cmp.Compare(a.At, b.At) })
		for i, l := range lines {
			n[l.What]++
			if l.What == "try" && !l.pending() {
				n["given up"]++
			}
			answer := func(a push) bool { return a.What == "answer" && a.Sent == l.Sent }
			if l.What == "effect" && !slices.ContainsFunc(lines[i:], answer) {
				n["unanswered"]++
			}
		}
	}
	for _, o := range p.orders {
		for _, c := range o.changes[1:] {
			n[map[bool]string{true: "cancelled", false: "moved"}[c.cancel]]++
		}
	}
	d.note(t, "%d tasks to deliver, %d times moved, %d cancelled: %d requests read, %d of them after their worker had "+
		"given them up, %d answered by 500 or 503; %d effects, %d of them without an answer",
		len(p.orders), n["moved"], n["cancelled"], n["try"], n["given up"], n["failure"], n["effect"], n["unanswered"])
	if n["unanswered"] == 0 {
		t.Error("the endpoint never died between an effect and its answer")
	}
}
