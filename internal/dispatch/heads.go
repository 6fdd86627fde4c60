package dispatch

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/pkg/task"
)

// heads shows how old the oldest entry of each shard is that is due and not yet published. The age is computed when it is
// looked at, so that it grows while a shard hangs.
type heads struct {
	now  func() time.Time
	desc *prometheus.Desc

	mu     sync.Mutex
	shards []*head // of the term that polls; none while this process doesn't lead
}

// head is the time of one shard's first unpublished entry, as far as is known: in Unix milliseconds, 0 when there is
// none, headUnknown before the first claim. A nil one notes nothing.
type head struct{ at atomic.Int64 }

const headUnknown = -1

func newHeads(now func() time.Time) *heads {
	return &heads{now: now, desc: prometheus.NewDesc("duetime_oldest_due_age_seconds",
		"How long ago the oldest entry of a shard was due that is not published yet; 0 for none. Only where this process leads.",
		[]string{"shard"}, nil)}
}

// lead begins to show so many shards instead of those before.
func (h *heads) lead(shards int) []*head {
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

// claimed notes what a claim gave: its first entry, or the one that comes next.
func (h *head) claimed(c task.Claim) {
	if len(c.Entries) == 0 {
		h.waits(c.Next)
		return
	}
	if h == nil {
		return
	}
	h.at.Store(c.Entries[0].Score.RunAt().UnixMilli())
}

// waits notes that everything before this time was published; zero is nothing at all.
func (h *head) waits(next time.Time) {
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

// Collect sends the ages as of now.
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
