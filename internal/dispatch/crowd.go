package dispatch

import (
	"time"

	"github.com/duetime/duetime/internal/protocol"
)

const (
	// maxAheadHints bounds how many hints, over all shards, are sent ahead of the lead time. A worker holds more hints than
	// that: otherwise these hints would keep it from reading hints that are due earlier.
	maxAheadHints = 200_000
	// minCrowdEntries is how many entries due within protocol.MaxLead, over all shards, make a crowd.
	minCrowdEntries = 16_000
)

// crowd decides when a shard sends hints ahead of the lead time. If many hints are due within protocol.MaxLead, Redis and
// Kafka have then finished their work when MySQL's work begins.
type crowd struct {
	maxAhead   int       // hints of this shard; 0: none are sent ahead
	minEntries int       // entries that make a crowd
	ahead      int       // hints sent ahead whose lead time has not begun
	until      time.Time // when the last of these hints is due
	coming     bool      // a crowd is coming
}

// newCrowd divides the bounds among the shards.
func newCrowd(lead time.Duration, shards int) crowd {
	if lead == 0 {
		return crowd{}
	}
	return crowd{maxAhead: max(maxAheadHints/shards, 1), minEntries: max(minCrowdEntries/shards, 1)}
}

// reach returns how far ahead of now the next claim goes, and how many entries it takes.
func (c *crowd) reach(now time.Time, cfg Config) (lead time.Duration, limit int) {
	if !c.until.After(now.Add(cfg.Lead)) {
		c.ahead = 0
	}
	if !c.sendsAhead() {
		return cfg.reach(now), cfg.Limit
	}
	return protocol.MaxLead, min(cfg.Limit, c.maxAhead-c.ahead)
}

// sendsAhead reports whether the next claim goes beyond the lead time.
func (c *crowd) sendsAhead() bool { return c.coming && c.ahead < c.maxAhead }

// record records a claim that went up to lead and limit. leadEnd is when the lead time ends that every claim covers.
func (c *crowd) record(claim protocol.Claim, lead time.Duration, limit int, leadEnd time.Time) {
	n := len(claim.Entries)
	c.coming = claim.Coming >= c.minEntries || lead == protocol.MaxLead && n >= limit
	for i := n - 1; i >= 0 && claim.Entries[i].Score.RunAt().After(leadEnd); i-- {
		c.ahead++
		if at := claim.Entries[i].Score.RunAt(); at.After(c.until) {
			c.until = at
		}
	}
}
