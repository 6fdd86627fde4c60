package reconcile

import (
	"context"
	"time"

	"github.com/duetime/duetime/internal/loop"
)

const (
	sampleInterval = 10 * time.Second // between two samples
	sampleEntries  = 100              // of one sample
	auditInterval  = time.Second      // between two passes of a whole audit
)

// auditMode makes an audit look at a sample in each pass. Once any pass has found drift, the audit looks at everything, at
// AuditRate, until a whole round finds no drift.
type auditMode struct {
	roundAlarms    int64 // alarms when the present whole round began
	answeredAlarms int64 // alarms before the last completed whole round
	whole          bool  // the present round looks at everything
}

// rate returns how many entries this pass looks at, and whether it begins a round.
func (m *auditMode) rate(s *sweep) (n int, begin bool) {
	alarms := s.alarms.Load()
	if alarms == m.answeredAlarms {
		return min(sampleEntries, s.cfg.AuditRate), false
	}
	if begin = !m.whole; begin {
		m.whole, m.roundAlarms = true, alarms
	}
	return s.cfg.AuditRate, begin
}

// endRound records the end of a round.
func (m *auditMode) endRound() {
	if m.whole {
		m.answeredAlarms = m.roundAlarms
	}
	m.whole = false
}

// next returns when the next pass runs.
func (m *auditMode) next(s *sweep) loop.Result {
	if s.alarms.Load() == m.answeredAlarms {
		return loop.Result{}
	}
	return loop.Result{Next: auditInterval}
}

// alarm makes the audits look at everything, if a pass has found n > 0 tasks whose entries differ from their rows.
func (r *Reconciler) alarm(ctx context.Context, reason string, n int) {
	if n == 0 {
		return
	}
	r.cfg.Logger.InfoContext(ctx, "drift found, all is audited", "reason", reason, "n", n)
	r.auditAll()
}

// auditAll makes the audits look at everything.
func (r *Reconciler) auditAll() {
	r.alarms.Add(1)
	loop.Rouse(r.wakeRows)
	loop.Rouse(r.wakeIndex)
}
