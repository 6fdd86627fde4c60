package protocol

import (
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// ErrLayoutChanged says that the layout is no longer as it was read: another change has begun or ended, or has been paused.
var ErrLayoutChanged = errors.New("layout changed in between")

// Layout is what all processes of a schema agree on: its namespace, and where owners' tasks stand in the index. It is the one row
// of duetime_layout. All code that goes from an owner to a shard, or over all shards, asks a Layout: another rule about shards is
// then a change of this type alone.
type Layout struct {
	Namespace  string
	Deployment string // id of the schema, made by migrate: it tells two schemas of one namespace apart
	Shards     int    // over which new rows spread
	ShardsEver int    // the most shards that there have ever been: older rows stay where they are indexed
	Generation int64  // raised by each change of Shards
	ShardsFrom int    // Shards before the change that is going on; 0 while no change is going on
	Paused     bool   // rows of a change that is going on stay where they are
	Moved      int64  // rows moved by the last change
	ToMove     int64  // rows that the last change has to move, about; 0 until they were counted

	Horizon time.Duration // tasks that are due later than this are kept out of the index, to the millisecond; 0: none is
	Partial bool          // the index may lack tasks, so that no list is read there: always while Horizon is set
}

// MaxShards bounds the Redis keys and the polling of one namespace.
const MaxShards = 1024

// Changing reports whether rows are being moved to other shards.
func (l Layout) Changing() bool { return l.ShardsFrom > 0 }

// Place returns the shard into which an owner's new tasks go.
func (l Layout) Place(owner string) int { return Shard(owner, l.Shards) }

// Standing returns the shards in which an owner's tasks may stand in the index: the owner's place and, while rows are being
// moved, the place before. A list by the index is right only if there is one: while a task moves, it stands in both or in none.
func (l Layout) Standing(owner string) []int {
	place := l.Place(owner)
	if l.Changing() {
		if before := Shard(owner, l.ShardsFrom); before != place {
			return []int{place, before}
		}
	}
	return []int{place}
}

// Misplaced reports whether a row that still needs its place in the index is indexed in another shard than its owner's place:
// pending rows are, and dead rows, which may be retried.
func (l Layout) Misplaced(t task.Task) bool {
	return (t.State == task.Pending || t.State == task.Dead) && t.Shard != l.Place(t.Owner)
}

// MovingShare returns the part of all owners whose place the change moves, from 0 to 1: half of them if the number doubles.
func (l Layout) MovingShare() float64 {
	if !l.Changing() || l.Shards < 1 {
		return 0
	}
	a, b := l.ShardsFrom, l.Shards
	for b > 0 {
		a, b = b, a%b
	}
	common := l.ShardsFrom / a * l.Shards // the least common multiple: remainders repeat after it
	return 1 - float64(min(l.ShardsFrom, l.Shards))/float64(common)
}

// horizonMargin is longer than clocks differ and than two lookaheads are apart. Rows come into the index by the lookahead, one
// margin behind the horizon. Writers put up to the next margin, so that the lookahead leaves out none of a writer whose clock is
// slow. Entries up to two more are left alone, so that no sweep removes what a writer whose clock is fast has put.
const horizonMargin = 10 * time.Second

// FedUntil returns the moment before which a row must be due for the lookahead to put it into the index; only if Horizon is set.
func (l Layout) FedUntil(now time.Time) time.Time { return now.Add(l.Horizon + horizonMargin) }

// PutUntil returns the moment before which a task must be due for its writer to put it into the index; zero: any time will do.
func (l Layout) PutUntil(now time.Time) time.Time {
	if l.Horizon == 0 {
		return time.Time{}
	}
	return now.Add(l.Horizon + 2*horizonMargin)
}

// Keeps reports whether an entry may stay in the index. runAt is the time of its score: a row whose time no score can hold stands
// at 1970.
func (l Layout) Keeps(runAt, now time.Time) bool {
	return l.Horizon == 0 || runAt.Before(now.Add(l.Horizon+4*horizonMargin))
}

// Polled returns how many shards are polled for due entries, and swept: those from 0 to Polled()-1.
func (l Layout) Polled() int { return l.ShardsEver }

// ShardOf returns the shard in which a row is indexed: its own, or its owner's place if no process polls the row's own, as when a
// service in another language wrote a wrong number.
func (l Layout) ShardOf(t task.Task) int {
	if t.Shard >= 0 && t.Shard < l.Polled() {
		return t.Shard
	}
	return l.Place(t.Owner)
}

// Shard returns the shard of n in which an owner's new tasks are indexed. SQL computes the same as CRC32(owner) MOD n.
func Shard(owner string, n int) int {
	return int(crc32.ChecksumIEEE([]byte(owner)) % uint32(n)) //nolint:gosec // n is a small positive count
}

// ShardsError says that a call to the index failed in some shards alone: the others took their part. In Redis Cluster a
// node may be away, or a slot under migration, while all other shards serve.
type ShardsError struct {
	Shards map[int]error // what went wrong, by shard; not empty
}

// Error tells of the first shard, and of how many there are more.
func (e *ShardsError) Error() string {
	first := e.Unwrap()[0].Error()
	if n := len(e.Shards) - 1; n > 0 {
		return fmt.Sprintf("%s (and %d more shards)", first, n)
	}
	return first
}

// Unwrap returns the errors in the order of the shards.
func (e *ShardsError) Unwrap() []error {
	all := make([]error, 0, len(e.Shards))
	for _, shard := range slices.Sorted(maps.Keys(e.Shards)) {
		all = append(all, e.Shards[shard])
	}
	return all
}

// FailedShards returns the shards in which the call failed whose error this is; ok is false if it failed as a whole, or
// didn't.
func FailedShards(err error) (shards map[int]error, ok bool) {
	if e, partial := errors.AsType[*ShardsError](err); partial {
		return e.Shards, true
	}
	return nil, false
}
