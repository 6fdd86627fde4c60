package index

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
)

// Claim acknowledges the entries of the caller's previous claim and returns the next ones, in one round trip: at most
// limit members that are due by now+lead. now is the database's time as the caller knows it. Claim removes none of the
// returned entries, and counts those that are due soon after. A claim with an epoch below the shard's does nothing and
// returns the shard's epoch in Fenced; a claim with a higher epoch fences all lower ones.
func (x *Index) Claim(
	ctx context.Context, shard int, epoch int64, now time.Time, lead time.Duration, limit int, acked []protocol.Entry,
) (protocol.Claim, error) {
	// +1: a score has the version as its fraction, so the scores of this millisecond are above its whole number.
	bound := now.UnixMilli() + lead.Milliseconds() + 1
	soon := now.UnixMilli() + max(lead, protocol.MaxLead).Milliseconds() + 1
	claim := &call{
		script: x.scripts.claim, shard: shard,
		keys: []string{x.dueKey(shard), x.epochKey(shard), x.genKey(shard), x.claimedKey(shard)},
		args: []any{strconv.FormatInt(epoch, 10), strconv.FormatInt(bound, 10), strconv.Itoa(limit), strconv.FormatInt(soon, 10)},
	}
	if err := x.run(ctx, append(x.acks(shard, epoch, acked), claim)...); err != nil {
		return protocol.Claim{}, err
	}
	answer, err := claim.reply.StringSlice()
	if err == nil {
		var c protocol.Claim
		if c, err = readClaim(answer); err == nil {
			return c, nil
		}
	}
	return protocol.Claim{}, fmt.Errorf("read claim of shard %d: %w", shard, err)
}

func readClaim(answer []string) (protocol.Claim, error) {
	if len(answer) < 4 || len(answer)%2 != 0 {
		return protocol.Claim{}, fmt.Errorf("%d values", len(answer))
	}
	if answer[0] != "" {
		stored, err := strconv.ParseInt(answer[0], 10, 64)
		return protocol.Claim{Fenced: stored}, err
	}
	next, err := parseScore(answer[2])
	if err != nil {
		return protocol.Claim{}, err
	}
	coming, err := strconv.Atoi(answer[3])
	if err != nil {
		return protocol.Claim{}, err
	}
	c := protocol.Claim{Marked: strings.HasPrefix(answer[1], complete), Coming: coming, Entries: make([]protocol.Entry, 0, len(answer)/2-2)}
	if next != protocol.NoScore {
		c.Next = next.RunAt()
	}
	for i := 4; i < len(answer); i += 2 {
		score, err := parseScore(answer[i+1])
		if err != nil {
			return protocol.Claim{}, err
		}
		c.Entries = append(c.Entries, decode(answer[i], float64(score)))
	}
	return c, nil
}

// acks removes published entries from the due set, each only if it still has the claimed score: an entry that was moved
// meanwhile stays.
func (x *Index) acks(shard int, epoch int64, entries []protocol.Entry) []*call {
	var calls []*call
	for part := range slices.Chunk(entries, maxCallMembers) {
		c := &call{
			script: x.scripts.ack, shard: shard,
			keys: []string{x.dueKey(shard), x.epochKey(shard)},
			args: []any{strconv.FormatInt(epoch, 10)},
		}
		for _, e := range part {
			c.args = append(c.args, e.Member, number(e.Score))
		}
		calls = append(calls, c)
	}
	return calls
}

func parseScore(s string) (protocol.Score, error) {
	if s == "" {
		return protocol.NoScore, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return protocol.NoScore, fmt.Errorf("score: %w", err)
	}
	return scoreOf(f), nil
}

// lastScore is higher than the scores of all tasks: see protocol.Score.
const lastScore = 1 << 41

// scoreOf bounds a score of a set. A score that no task has (another program wrote +inf, or less than 0) would be
// misread: +inf becomes a time in the distant past, and -1 means that there is no score. The scripts use the same
// bounds.
func scoreOf(f float64) protocol.Score {
	if !(f >= 0) { // NaN too
		return 0
	}
	return protocol.Score(min(f, lastScore))
}
