package witness

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// judge reads the effects, ends plays, and looks for effects that came after the verdict.
func (w *Witness) judge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	elapsed := min(w.now().Sub(w.judged).Abs(), 2*judgeInterval)
	w.judged = w.now()
	now, read, err := w.store.Effects(ctx)
	if err != nil {
		return err
	}
	var done []int64 // effects that are not needed any more
	byPlay := map[task.ID][]effect{}
	for _, e := range read {
		if byPlay[e.Play] = append(byPlay[e.Play], e); e.At.After(w.effect) {
			w.effect = e.At
		}
		if now.Sub(e.At) > forgotten { // until then a daemon that led before may judge it
			done = append(done, e.Seq)
		}
	}
	if now.Sub(w.effect) >= livelyFor {
		elapsed = 0
	}
	var errs []error
	for _, p := range slices.Clone(w.open) {
		if !now.Before(p.ends()) {
			p.overdue += elapsed
			errs = append(errs, w.verdict(ctx, p, byPlay[p.id], now))
		}
	}
	w.over = slices.DeleteFunc(w.over, func(p *play) bool { return now.Sub(p.judged) > lateFor })
	for _, p := range w.over {
		for _, e := range byPlay[p.id] {
			if done = append(done, e.Seq); slices.Contains(p.seen, e.Seq) {
				continue
			}
			p.seen = append(p.seen, e.Seq)
			w.report(ctx, p, doubled)
			errs = append(errs, w.store.SaveVerdict(ctx, p.id, doubled))
		}
	}
	if len(done) > 0 {
		errs = append(errs, w.store.ForgetWitnessed(ctx, done, now, w.cfg.Retention))
	}
	return errors.Join(errs...)
}

// verdict ends a play, unless an effect has still to come.
func (w *Witness) verdict(ctx context.Context, p *play, effects []effect, now time.Time) error {
	absent, wait, err := w.absent(ctx, p, effects, now)
	if err != nil || wait && now.Sub(p.ends()) <= givenUpAfter {
		return err
	}
	if w.drop(p); wait {
		return nil
	}
	faults := append(judge(p.Promises, effects), absent...)
	p.judged = now
	for _, e := range effects {
		p.seen = append(p.seen, e.Seq)
	}
	w.over = append(w.over, p)
	if len(faults) > 0 {
		w.report(ctx, p, faults...)
	}
	w.metrics.verdict.SetToCurrentTime()
	return w.store.SaveVerdict(ctx, p.id, strings.Join(faults, ","))
}

// absent looks for the tasks without the effect that was promised: wait says that it may still come.
func (w *Witness) absent(ctx context.Context, p *play, effects []effect, now time.Time) (faults []string, wait bool, err error) {
	for _, made := range p.Promises {
		if made.Is.None || len(of(made.Part, effects)) > 0 {
			continue
		}
		isLost, err := w.isLost(ctx, p, made.ID, now)
		if err != nil {
			return nil, false, err
		}
		wait = true
		if isLost {
			faults = append(faults, lost)
		}
	}
	doubted := p.doubted
	if p.doubted = len(faults) > 0; p.doubted && doubted { // the effects were read before the rows
		return faults, false, nil
	}
	return nil, wait, nil
}

// isLost decides by the row whether the effect of a task will not come.
func (w *Witness) isLost(ctx context.Context, p *play, id task.ID, now time.Time) (bool, error) {
	patient, ids := p.overdue < lostAfter, []task.ID{id}
	if id.IsZero() {
		return !patient, nil
	}
	rows, _, err := w.store.LockFree(ctx, nil, ids)
	switch {
	case err != nil:
		return false, err
	case len(rows) == 0:
		if rows, err = w.store.Entries(ctx, ids); len(rows) > 0 {
			p.overdue = 0 // somebody has locked it
		}
		return !patient && len(rows) == 0, err
	case rows[0].State != task.Pending:
		return true, nil
	}
	return !patient && rows[0].RunAt.Before(now.Add(-lostAfter)), nil
}
