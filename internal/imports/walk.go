package imports

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// member is one entry of a sorted set.
type member struct {
	name  string
	score float64
}

// walk reads a sorted set in its order, by score and then by member, while others add and remove members.
//
// It remembers the last member, and reads by rank from where that member stood. Ranks shift, so a page counts only if it
// begins with a member that was passed, or with the first of the set: then Redis has read, in one command, everything behind
// the last member. Otherwise members before it were removed, and the walk reads further ahead in the set. Reading by score
// alone would have to read all members of one score at once.
type walk struct {
	from     redis.Cmdable
	key      string
	min, max float64 // scores: from min on, below max
	size     int64   // of a page

	rank  int64 // at which the next page begins, as far as is known
	last  member
	begun bool // last is set
	ended bool
}

func newWalk(from redis.Cmdable, source Source, cfg Config) *walk {
	w := &walk{from: from, key: source.set(), min: math.Inf(-1), max: math.Inf(1), size: pageSize}
	if !cfg.DueAfter.IsZero() {
		w.min = source.score(cfg.DueAfter)
	}
	if !cfg.DueBefore.IsZero() {
		w.max = source.score(cfg.DueBefore)
	}
	return w
}

// count returns the number of members, and finds the first.
func (w *walk) count(ctx context.Context) (int, error) {
	below, err := w.from.ZCount(ctx, w.key, "-inf", "("+bound(w.min)).Result()
	if err != nil {
		return 0, fmt.Errorf("count members of %s: %w", w.key, err)
	}
	upTo := "(" + bound(w.max)
	if math.IsInf(w.max, 1) {
		upTo = "+inf" // inclusive: such a score is one that can't be read
	}
	total, err := w.from.ZCount(ctx, w.key, bound(w.min), upTo).Result()
	if err != nil {
		return 0, fmt.Errorf("count members of %s: %w", w.key, err)
	}
	w.rank = max(0, below-1)
	return int(total), nil
}

func bound(score float64) string { return strconv.FormatFloat(score, 'f', -1, 64) }

// next returns the next members, at most a page; none at the end.
func (w *walk) next(ctx context.Context) ([]member, error) {
	for step := w.size; !w.ended; {
		page, err := w.read(ctx, w.rank)
		if err != nil {
			return nil, err
		}
		if w.rank > 0 && (len(page) == 0 || !w.passed(page[0])) {
			w.rank = max(0, w.rank-step)
			step *= 2
			continue
		}
		if len(page) > 0 {
			w.rank += int64(len(page)) - 1 // the next page begins with this one's last
		}
		w.ended = int64(len(page)) < w.size
		if fresh := w.fresh(page); len(fresh) > 0 {
			w.last, w.begun = fresh[len(fresh)-1], true
			return fresh, nil
		}
	}
	return nil, nil
}

func (w *walk) read(ctx context.Context, rank int64) ([]member, error) {
	found, err := w.from.ZRangeWithScores(ctx, w.key, rank, rank+w.size-1).Result()
	if err != nil {
		return nil, fmt.Errorf("read members of %s: %w", w.key, err)
	}
	page := make([]member, len(found))
	for i, z := range found {
		page[i] = member{fmt.Sprint(z.Member), z.Score}
	}
	return page, nil
}

// fresh returns what of a page was not passed and is not beyond the last score.
func (w *walk) fresh(page []member) []member {
	for len(page) > 0 && w.passed(page[0]) {
		page = page[1:]
	}
	for n := len(page); n > 0 && page[n-1].score >= w.max && !math.IsInf(w.max, 1); n-- {
		page, w.ended = page[:n-1], true
	}
	return page
}

// passed reports whether a member stands before all those that are still to be read.
func (w *walk) passed(m member) bool {
	if !w.begun {
		return m.score < w.min
	}
	return m.score < w.last.score || m.score == w.last.score && m.name <= w.last.name
}
