package console

import (
	"context"
	"maps"
	"sync"
	"time"
)

const (
	paceSpan  = time.Hour       // that is measured at once
	paceKept  = 24 * time.Hour  // how long a measured minute counts
	paceDelay = 5 * time.Second // from a minute's end: by then its transactions have committed
)

// pace keeps how fast workers were in the minutes in which tasks waited for them. All consoles that As makes of one share it.
type pace struct {
	measuring sync.Mutex // one caller measures; the others go by what is known

	mu     sync.Mutex
	until  time.Time // minutes before it are measured
	loaded map[time.Time]float64
}

type paceRows interface {
	Pace(ctx context.Context, from time.Time, minutes int) ([]float64, error)
}

// measure measures those minutes of the last hour that were not measured before.
func (p *pace) measure(ctx context.Context, rows paceRows, now time.Time) error {
	if !p.measuring.TryLock() {
		return nil
	}
	defer p.measuring.Unlock()
	until := now.Add(-paceDelay).Truncate(time.Minute)
	p.mu.Lock()
	from := p.until
	p.mu.Unlock()
	if first := until.Add(-paceSpan); from.Before(first) || from.After(now) { // after, if the clock was set back
		from = first
	}
	minutes := int(until.Sub(from) / time.Minute)
	if minutes < 1 {
		return nil
	}
	rates, err := rows.Pace(ctx, from, minutes)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loaded == nil {
		p.loaded = map[time.Time]float64{}
	}
	for i, rate := range rates {
		if rate > 0 {
			p.loaded[from.Add(time.Duration(i)*time.Minute)] = rate
		}
	}
	p.until = until
	return nil
}

// capacity returns the lowest and the highest rate of the last day's measured minutes, and the newest of these.
func (p *pace) capacity(now time.Time) (low, high float64, atMs int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.loaded, func(m time.Time, _ float64) bool { return now.Sub(m) > paceKept })
	for minute, rate := range p.loaded {
		if low == 0 || rate < low {
			low = rate
		}
		high, atMs = max(high, rate), max(atMs, minute.UnixMilli())
	}
	return low, high, atMs
}
