package worker

import (
	"log/slog"

	"github.com/duetime/duetime/pkg/task"
)

// apply makes the outcomes of a committed transaction count.
func (t *try) apply() {
	puts := make([]task.Task, 0, len(t.members)+len(t.touched))
	var letters []task.DeadLetter
	done := t.clock.Now()
	for id, m := range t.members {
		if m.state == stateMarked {
			m.row = m.row.Finish(done)
			m.outcome.put = &m.row
		}
		if _, newer := t.touched[id]; m.outcome.put != nil && !newer {
			puts = append(puts, *m.outcome.put)
		}
		if m.state == stateMarked || m.hint.CommitUnknown && m.outcome.result == resultDone {
			t.metrics.observe(m.row.Kind, done.Sub(m.row.FiredFrom()))
		}
		if m.outcome.result == resultUnknownKind {
			t.unknown.note(t.ctx, m.row, done)
		}
		if m.outcome.result == resultDead {
			letters = append(letters, letter(m.row))
			t.Logger.Error("task dead", slog.String("task_id", id.String()), slog.String("kind", m.row.Kind),
				slog.Int("attempt", m.row.Attempt), slog.String("err", m.row.LastError))
		}
		t.settleHint(m)
	}
	for _, changed := range t.touched {
		puts = append(puts, changed)
	}
	t.after.put(puts)
	t.after.bury(letters)
}

// settleHint carries the outcome over to the hint.
func (t *try) settleHint(m *member) {
	h, o := m.hint, m.outcome
	h.Result, h.Settled, h.LookAt = string(o.result), o.settled, o.at
	if o.result != "" {
		t.metrics.count(m.row.Kind, o.result)
	}
	if o.letGo != "" {
		t.metrics.letGo.WithLabelValues(o.letGo).Inc()
	}
	if o.settled {
		return
	}
	h.Lane = max(h.Lane, o.lane)
	if h.LookAt.After(h.PatientSince) && o.result == resultEarly {
		h.PatientSince = h.LookAt // its patience begins with its moment
	}
}

func letter(t task.Task) task.DeadLetter {
	return task.DeadLetter{ID: t.ID, Kind: t.Kind, Owner: t.Owner, Queue: t.Queue, Attempt: t.Attempt, Error: t.LastError}
}
