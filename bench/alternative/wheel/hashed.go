package wheel

// hashedSlots makes a turn of 65 s. A tick looks at one slot, also at what is due in a later turn: with a million
// pending, at 15 timers.
const hashedSlots = 1 << 16

// hashed is one wheel on which far timers wait for several turns.
type hashed struct {
	now   int64
	slots []slot
}

func newHashed(now int64) *hashed { return &hashed{now: now, slots: make([]slot, hashedSlots)} }

func (w *hashed) add(t *timer) {
	t.tick = max(t.tick, w.now+1)
	w.slots[t.tick%hashedSlots].add(t)
}

func (w *hashed) advance(to int64) []*timer {
	var due []*timer
	for w.now < to {
		w.now++
		s := &w.slots[w.now%hashedSlots]
		for i := 0; i < len(*s); {
			t := (*s)[i]
			if t.tick > w.now {
				i++
				continue
			}
			t.leave() // another one takes its place
			due = append(due, t)
		}
	}
	return due
}
