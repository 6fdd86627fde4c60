package witness

import "github.com/duetime/duetime/internal/protocol"

// The faults: values of a label, and words of a verdict.
const (
	lost        = "lost"         // a promised effect that never came
	doubled     = "doubled"      // a further effect, or one after the verdict
	early       = "early"        // an effect before the due time
	stale       = "stale"        // an effect by a time or data that had been replaced
	afterCancel = "after_cancel" // an effect in spite of an acknowledged cancel
	inverted    = "inverted"     // an effect before one that had to come first
)

var allFaults = []string{lost, doubled, early, stale, afterCancel, inverted}

type effect = protocol.WitnessEffect

// of returns the effects of a part, in the order of their inserts.
func of(part string, effects []effect) (own []effect) {
	for _, e := range effects {
		if e.Part == part {
			own = append(own, e)
		}
	}
	return own
}

// judge compares what was promised with the effects so far, and returns the faults. It knows no row: a task that has no
// effect yet is no fault of its own.
func judge(promises []*promise, effects []effect) (faults []string) {
	for _, p := range promises {
		own := of(p.Part, effects)
		for i, e := range own {
			if f := p.judgeOne(e); f != "" {
				faults = append(faults, f)
			} else if i > 0 {
				faults = append(faults, doubled)
			}
			for _, before := range p.After {
				if first := of(before, effects); len(first) == 0 || first[0].Seq > e.Seq {
					faults = append(faults, inverted)
				}
			}
		}
	}
	return faults
}

// judgeOne judges one effect by itself.
func (p *promise) judgeOne(e effect) string {
	switch {
	case e.At.Before(e.Due):
		return early
	case p.Is.fits(e):
		return ""
	case p.Is.None && !p.Is.Replaced:
		return afterCancel
	case !p.Is.None && p.Is.Data == e.Data && e.At.UnixMilli() < p.Is.Due:
		return early
	}
	return stale
}
