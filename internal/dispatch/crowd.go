package dispatch

import (
	"time"

	"github.com/duetime/duetime/pkg/task"
)

const (
	// maxAheadHints is how many hints, over all shards, may be on their way to the workers beyond the lead. A worker holds more
	// than that, or what is sent ahead would keep it from reading what is due before.
	maxAheadHints = 200_000
	// minCrowdEntries is how many, over all shards, are worth sending ahead when they are due within task.MaxLead.
	minCrowdEntries = 16_000
)

// crowd sends many hints that are due within task.MaxLead ahead of their lead, so that Redis and Kafka are through with
// them when their moment comes and only MySQL is left with work to do.
type crowd struct {
	room       int       // hints of this shard that may be ahead; 0: never ahead of the lead
	minEntries int       // coming ones that are worth it
	ahead      int       // sent beyond the lead and not yet within it
	until      time.Time // when the last of these is due
	there      bool      // so many are coming
}

// newCrowd shares the room out among the shards.
func newCrowd(lead time.Duration, shards int) crowd {
	if lead == 0 {
		return crowd{}
	}
	return crowd{room: max(maxAheadHints/shards, 1), minEntries: max(minCrowdEntries/shards, 1)}
}

// reach is how far ahead the next claim goes, and how much it takes.
func (c *crowd) reach(now time.Time, cfg Config) (lead time.Duration, limit int) {
	if !c.until.After(now.Add(cfg.Lead)) {
		c.ahead = 0
	}
	if !c.follows() {
		return cfg.reach(now), cfg.Limit
	}
	return task.MaxLead, min(cfg.Limit, c.room-c.ahead)
}

// follows reports whether the next claim goes beyond the lead.
func (c *crowd) follows() bool { return c.there && c.ahead < c.room }

// record takes in what a claim up to a lead and a limit gave. within is the moment up to which entries are claimed anyway.
func (c *crowd) record(claim task.Claim, lead time.Duration, limit int, leadEnd time.Time) {
	n := len(claim.Entries)
	c.there = claim.Coming >= c.minEntries || lead == task.MaxLead && n >= limit
	for i := n - 1; i >= 0 && claim.Entries[i].Score.RunAt().After(leadEnd); i-- {
		c.ahead++
		if at := claim.Entries[i].Score.RunAt(); at.After(c.until) {
			c.until = at
		}
	}
}
