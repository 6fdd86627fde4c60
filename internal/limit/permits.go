package limit

import "time"

// Constants of permits.
const (
	minHolding = time.Second // a worker keeps its permits this long while others, which have none, wait
	maxHolders = 350         // that a row has: each takes up to 170 of its 65,535 bytes

	// PermitTTL is how long a permit lasts without being renewed: that long after the end of a worker its permits are lost.
	PermitTTL = 2 * time.Second
)

// Holder is a worker that has permits of a queue, or wants some. A permit lets one transaction with handlers run.
type Holder struct {
	Name    string    `json:"name"`
	Permits int       `json:"permits"`
	Wanted  int       `json:"wanted"` // as many as it could use now; 0: nothing is due there
	Since   time.Time `json:"since"`  // since when it has permits; if it has none, since when it wants some
	Until   time.Time `json:"until"`  // then its permits, or its wish, expire
}

// bounded brings back the times of a holder that tells of the future: the clock was set back since. Otherwise the permits of a dead
// worker would last for as long, and a living one would keep its own from those that wait.
func (h Holder) bounded(now time.Time) Holder {
	if latest := now.Add(PermitTTL); h.Until.After(latest) {
		h.Until = latest
	}
	if h.Since.After(now) {
		h.Since = now
	}
	return h
}

func (h Holder) waits() bool { return h.Permits == 0 && h.Wanted > 0 }

// Permits decides how many transactions of a holder may run, if it wants a number of them, and runs some already. The others
// are all whose permits have not expired. Those that want permits share them equally; where there are fewer permits than such
// workers, these take turns, the longest waiting first.
func Permits(concurrency int, mine Holder, others []Holder, now time.Time) int {
	free, claimants := concurrency, 0
	if mine.Wanted > 0 {
		claimants++
	}
	for _, o := range others {
		free -= o.Permits
		if o.Wanted > 0 {
			claimants++
		}
	}
	granted := max(0, min(mine.Wanted, free))
	fair := max(1, concurrency/max(1, claimants))
	waiting, longer, short := 0, 0, false
	for _, o := range others {
		if o.Wanted > o.Permits && o.Permits < fair {
			short = true
		}
		if !o.waits() {
			continue
		}
		waiting++
		if o.Since.Before(mine.Since) || o.Since.Equal(mine.Since) && o.Name < mine.Name {
			longer++
		}
	}
	if short {
		granted = min(granted, fair)
	}
	switch {
	case mine.Permits == 0:
		return max(0, min(granted, free-longer))
	case waiting > 0 && concurrency < claimants && now.Sub(mine.Since) >= minHolding:
		return 0
	}
	return granted
}
