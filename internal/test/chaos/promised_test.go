package chaos_test

import "fmt"

// tally counts one owner's or one pet's changes of one sort.
type tally struct {
	found int // in the journal
	least int // acknowledged
	spare int // more that may have happened: calls without an answer
}

// promised compares the journal with what the players were answered: each acknowledged change stands in it, once, and
// nothing else does but what a call without an answer may have done.
func (v *verdict) promised(h history, calls []call, l leave) {
	var kept []call
	for _, c := range calls {
		if l.forget != nil && c.acked() && l.forget(c) {
			c.status, c.moved, c.task = 0, 0, ""
		}
		kept = append(kept, c)
	}
	v.identities(h, kept)
	v.counts(h, kept)
	v.pets(h, kept)
}

// identities looks for the very task and version that an answer named.
func (v *verdict) identities(h history, calls []call) {
	stands := map[string]bool{}
	for _, l := range h.lines {
		stands[fmt.Sprint(l.event, l.task, l.version)] = true
	}
	for _, c := range calls {
		if !c.acked() || c.task == "" || (c.op != fed && c.op != spedUp) {
			continue
		}
		if !stands[fmt.Sprint(c.op, c.task, c.version)] {
			add(&v.lost, "pet %s: %s of task %s, version %d, was acknowledged and is not in the journal", c.pet, c.op, c.task, c.version)
		}
		if m := v.meals[c.task]; m != nil && m.ate() && m.version < c.version {
			add(&v.stale, "task %s: took effect at version %d, version %d was acknowledged before", c.task, m.version, c.version)
		}
	}
}

// counts compares how often each change stands in the journal with how often it was asked for: by pet, and the
// speed-ups by owner, since an owner's speed-up names no pets.
func (v *verdict) counts(h history, calls []call) {
	tallies := map[string]*tally{}
	at := func(who, op string) *tally {
		key := op + " of " + who
		if tallies[key] == nil {
			tallies[key] = &tally{}
		}
		return tallies[key]
	}
	who := func(op, owner, pet string) string {
		if op == spedUp || op == hurried {
			return "owner " + owner
		}
		return "pet " + pet
	}
	for _, l := range h.lines {
		if l.event == fed || l.event == spedUp || l.event == armed || l.event == cancelled {
			at(who(l.event, l.owner, l.pet), l.event).found++
		}
	}
	for _, c := range calls {
		if c.op == created || c.op == postponed {
			continue
		}
		op, n := c.op, 1
		if op == hurried {
			op, n = spedUp, c.moved
			if c.open() {
				n = litter
			}
		}
		t := at(who(c.op, c.owner, c.pet), op)
		switch {
		case c.acked():
			t.least += n
		case c.open():
			t.spare += n
		}
	}
	for key, t := range tallies {
		if t.found < t.least {
			add(&v.lost, "%s: %d in the journal, %d acknowledged", key, t.found, t.least)
		}
		if t.found > t.least+t.spare {
			add(&v.phantom, "%s: %d in the journal, %d acknowledged and %d without an answer", key, t.found, t.least, t.spare)
		}
	}
}

// pets compares who was made with who is there.
func (v *verdict) pets(h history, calls []call) {
	spare, known := 0, map[string]bool{}
	for _, c := range calls {
		switch {
		case c.op != created:
		case c.acked():
			known[c.pet] = true
			if _, stands := h.stocks[c.pet]; !stands {
				add(&v.lost, "pet %s was acknowledged and is not there", c.pet)
			}
		case c.open():
			spare++
		}
	}
	if more := len(h.stocks) - len(known); more > spare {
		add(&v.phantom, "%d pets beyond those acknowledged, %d calls without an answer", more, spare)
	}
}
