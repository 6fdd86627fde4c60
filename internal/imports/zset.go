package imports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
)

// Form says what the members of a ZSet are.
type Form int

// The forms of members.
const (
	FormGuessed Form = iota // JSON that begins with { or [; anything else can't be read
	FormJSON                // the payload
	FormID                  // a text; the payload is {"id": text}
)

// Unit says what the scores of a ZSet count since 1970.
type Unit int

// The units of scores.
const (
	UnitGuessed Unit = iota // by the smallest and the largest score
	UnitSeconds
	UnitMilliseconds
)

// ErrUnit says that the scores of a ZSet don't show their unit.
var ErrUnit = errors.New("the scores don't show whether they are seconds or milliseconds")

// ZSet is a sorted set of a service's own, as many write a delay queue: the score is the due time.
type ZSet struct {
	Key  string
	Kind Kind
	Form Form
	Unit Unit // a guessed one is set by prepare
}

var _ Source = (*ZSet)(nil)

// String names the set.
func (z *ZSet) String() string { return "zset " + z.Key }

// Kinds returns the kind of all members.
func (z *ZSet) Kinds() []Kind { return []Kind{z.Kind} }

func (z *ZSet) set() string    { return z.Key }
func (z *ZSet) name() []string { return []string{"zset", z.Key} }

// prepare finds the unit. All scores lie between those that it looks at, but for infinite ones, which can't be read.
func (z *ZSet) prepare(ctx context.Context, from redis.Cmdable) error {
	if z.Unit != UnitGuessed {
		return nil
	}
	finite := &redis.ZRangeBy{Min: "(-inf", Max: "(+inf", Count: 1}
	low, err := from.ZRangeByScoreWithScores(ctx, z.Key, finite).Result()
	if err != nil {
		return err
	}
	high, err := from.ZRevRangeByScoreWithScores(ctx, z.Key, finite).Result()
	if err != nil {
		return err
	}
	if len(low) == 0 || len(high) == 0 {
		z.Unit = UnitSeconds // there is nothing to read
		return nil
	}
	z.Unit = unitOf(low[0].Score)
	if z.Unit == UnitGuessed || z.Unit != unitOf(high[0].Score) {
		return fmt.Errorf("%w: they go from %s to %s", ErrUnit, bound(low[0].Score), bound(high[0].Score))
	}
	return nil
}

// unitOf tells the unit of a score between 1973 and 2286, in which no number of seconds is one of milliseconds.
func unitOf(score float64) Unit {
	switch {
	case score >= 1e8 && score < 1e10:
		return UnitSeconds
	case score >= 1e11 && score < 1e13:
		return UnitMilliseconds
	}
	return UnitGuessed
}

// micros is how many microseconds the unit has: scores may have fractions.
func (u Unit) micros() float64 {
	if u == UnitMilliseconds {
		return 1e3
	}
	return 1e6
}

func (z *ZSet) due(score float64) (time.Time, error) { return moment(score, z.Unit) }

func (z *ZSet) score(due time.Time) float64 { return float64(due.UnixMicro()) / z.Unit.micros() }

// moment reads a score, to the microsecond.
func moment(score float64, unit Unit) (time.Time, error) {
	const maxMicros = 1e16 // the year 2286; beyond 9e15 a float64 has no odd microseconds, which a due time does not need
	us := math.Round(score * unit.micros())
	if math.IsNaN(us) || math.Abs(us) > maxMicros {
		return time.Time{}, fmt.Errorf("its score %v is no time", score)
	}
	return time.UnixMicro(int64(us)).UTC(), nil
}

func (z *ZSet) read(_ context.Context, _ redis.Cmdable, members []member) ([]reading, error) {
	readings := make([]reading, len(members))
	for i, m := range members {
		read := reading{member: m.name, kind: z.Kind}
		if read.due, read.err = z.due(m.score); read.err == nil {
			read.payload, read.owner, read.err = z.payload(m.name)
		}
		readings[i] = read
	}
	return readings, nil
}

// payload reads a member. The owner is empty where the member names none.
func (z *ZSet) payload(name string) (payload []byte, owner string, err error) {
	switch {
	case !utf8.ValidString(name):
		return nil, "", errors.New("is no UTF-8")
	case z.Form == FormID:
		payload, err = json.Marshal(struct {
			ID string `json:"id"`
		}{name})
		return payload, name, err
	case !json.Valid([]byte(name)):
		return nil, "", errors.New("is no JSON")
	case z.Form == FormGuessed && !strings.ContainsRune("{[", rune(strings.TrimSpace(name)[0])):
		return nil, "", errors.New("is JSON, but neither an object nor a list: it may be an id")
	}
	return []byte(name), "", nil
}
