package console

import (
	"context"
	"errors"
	"testing"
	"time"
)

// paces are measured rates by the minute's distance from the first one.
type paces struct {
	began       time.Time
	rates       map[int]float64
	err         error
	from, asked int // of the last call
}

func (p *paces) Pace(_ context.Context, from time.Time, minutes int) ([]float64, error) {
	p.from, p.asked = int(from.Sub(p.began)/time.Minute), minutes
	rates := make([]float64, minutes)
	for i := range rates {
		rates[i] = p.rates[p.from+i]
	}
	return rates, p.err
}

// Each minute of the last hour is measured once, at the first look. Those in which tasks waited for workers count for a day.
func TestCapacityIsMeasuredOnce(t *testing.T) {
	t.Parallel()
	began := time.UnixMilli(1_800_000_000_000).UTC().Truncate(time.Minute)
	rows := &paces{began: began, rates: map[int]float64{-2: 400, -59: 1000, -61: 5, 3: 90}}
	var p pace
	type capacity struct {
		low, high float64
		minute    int64
	}
	measured := func(after time.Duration, from, minutes int, want capacity) {
		t.Helper()
		rows.from, rows.asked = 0, 0
		now := began.Add(after)
		err := p.measure(t.Context(), rows, now)
		low, high, at := p.capacity(now)
		if at > 0 {
			at = (at - began.UnixMilli()) / 60_000
		}
		if got := (capacity{low, high, at}); err != nil || rows.from != from || rows.asked != minutes || got != want {
			t.Errorf("after %v: %d minutes from %d, %+v, %v; want %d from %d, %+v", after, rows.asked, rows.from, got, err, minutes, from, want)
		}
	}
	rows.err = errors.New("away")
	if err := p.measure(t.Context(), rows, began.Add(paceDelay)); !errors.Is(err, rows.err) {
		t.Errorf("got %v", err)
	}
	rows.err = nil
	measured(paceDelay, -60, 60, capacity{400, 1000, -2}) // what failed is measured by another call
	measured(paceDelay+time.Second, 0, 0, capacity{400, 1000, -2})
	measured(time.Minute+paceDelay-1, 0, 0, capacity{400, 1000, -2}) // the minute's last transactions may not have committed
	measured(time.Minute+paceDelay, 0, 1, capacity{400, 1000, -2})
	measured(5*time.Minute, 1, 3, capacity{90, 1000, 3})
	measured(23*time.Hour+30*time.Minute, 22*60+29, 60, capacity{90, 400, 3})
	measured(25*time.Hour, 23*60+59, 60, capacity{})
	measured(24*time.Hour, 22*60+59, 60, capacity{}) // the clock was set back
	if c := New(Config{}, nil, nil, nil); c.As("ann@host").pace != c.pace {
		t.Error("As made another pace")
	}
}
