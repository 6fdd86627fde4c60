package dispatch

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/protocol"
)

// heads shows the age of each shard's oldest due entry that is not published. The age is computed at the scrape, so that
// it grows while a shard hangs.
type heads struct {
	now  func() time.Time
	desc *prometheus.Desc

	mu     sync.Mutex
	shards []*head // of the present term; empty while this process doesn't lead
}

// head is the time of one shard's first unpublished entry, in Unix milliseconds: 0 without such an entry, headUnknown
// before the first claim. A nil head records nothing.
type head struct{ at atomic.Int64 }

const headUnknown = -1

func newHeads(now func() time.Time) *heads {
	return &heads{now: now, desc: prometheus.NewDesc("duetime_oldest_due_age_seconds",
		"How long ago the oldest entry of a shard was due that is not published yet; 0 for none. Only where this process leads.",
		[]string{"shard"}, nil)}
}

// reset replaces the shards that are shown.
func (h *heads) reset(shards int) []*head {
	of := make([]*head, shards)
	for i := range of {
		of[i] = &head{}
		of[i].at.Store(headUnknown)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shards = of
	return of
}

// recordClaim records the first entry of a claim, or the time of the next one.
func (h *head) recordClaim(c protocol.Claim) {
	first := c.Next
	if len(c.Entries) > 0 {
		first = c.Entries[0].Score.RunAt()
	}
	h.set(first)
}

// set records that all entries before this time were published; the zero time means that there is no further entry.
func (h *head) set(next time.Time) {
	if h == nil {
		return
	}
	if next.IsZero() {
		h.at.Store(0)
		return
	}
	h.at.Store(next.UnixMilli())
}

// Describe names the gauge.
func (h *heads) Describe(ch chan<- *prometheus.Desc) { ch <- h.desc }

// Collect sends the present ages.
func (h *heads) Collect(ch chan<- prometheus.Metric) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for shard, head := range h.shards {
		at, age := head.at.Load(), 0.0
		if at == headUnknown {
			continue
		}
		if at > 0 {
			age = max(now.Sub(time.UnixMilli(at)).Seconds(), 0)
		}
		ch <- prometheus.MustNewConstMetric(h.desc, prometheus.GaugeValue, age, strconv.Itoa(shard))
	}
}
