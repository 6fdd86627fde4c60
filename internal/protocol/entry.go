package protocol

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/pkg/task"
)

// VersionWindow is how many versions a score tells apart. A version is newer than another when it is 1 to
// VersionWindow/2-1 ahead of it, counted round the window.
const VersionWindow = 4096

// Score orders the index: the next try's Unix milliseconds plus version mod 4096 as a fraction, exact in a double up
// to 2039. Two standings of one task are equal only when their time and version are.
type Score float64

// NoScore says that a set does not hold the member.
const NoScore Score = -1

// ScoreOf returns the score that the index must hold for the row; NoScore for a task that has ended. A next try that no score
// can hold, in a row of another program, stands at 1970: a worker is to look at once, and runs the task whose time is long past,
// or ends the one whose time cannot come (transition.Impossible).
func ScoreOf(t task.Task) Score {
	if t.State != task.Pending {
		return NoScore
	}
	ms := t.RunAt.UnixMilli()
	if ms < 0 || ms > rowform.MaxUnixMs {
		ms = 0
	}
	return Score(float64(ms) + float64(WindowedVersion(t.Version))/VersionWindow)
}

// WindowedVersion is the version as scores and hints carry it: 0 to VersionWindow-1, also of a row to which another program
// gave a version below zero.
func WindowedVersion(version int64) int64 {
	return (version%VersionWindow + VersionWindow) % VersionWindow
}

// RunAt returns the score's time.
func (s Score) RunAt() time.Time { return time.UnixMilli(int64(s)).UTC() }

// Version returns the score's version, mod VersionWindow.
func (s Score) Version() int64 {
	return int64((float64(s) - float64(int64(s))) * VersionWindow)
}

// Entry is one member of the index as it stands there: all that dispatch needs to publish its hint.
type Entry struct {
	Member  string // as stored; opaque outside internal/index
	Score   Score
	ID      task.ID
	Kind    string
	Queue   string
	Owner   string
	Subject string
	// OrderKey is the task's, if a spec gave it; it decides where the hint goes.
	OrderKey string
	Err      error // set when the member can't be decoded; the names above are empty then
}

// Due are locked rows that are to run in a caller's transaction.
type Due struct {
	Rows   []task.Task
	Bars   map[task.ID]Bar  // of the rows; NoBar is absent
	Held   map[task.ID]bool // rows that are paused, or whose queues an operator has limited
	Now    time.Time        // the moment just before the locks; zero without rows
	PutOff int              // due rows, not among these, that a worker has put off without an attempt
}

// Bar is why a pending task must not run, whatever its row says.
type Bar int

// The bars.
const (
	NoBar        Bar = iota
	OwnerBlocked     // the owner is blocked
	IDEnded          // a task with the same id has ended before, and left: this one was inserted once more
)

// IsFresh reports whether an id was made in the last minutes, by its own time and this clock: no task with such an id has ended
// long enough ago to have left its table. A clock that is minutes wrong makes it wrong.
func IsFresh(id task.ID, now time.Time) bool {
	made, is := madeAt(id)
	return is && now.Sub(made).Abs() < fresh
}

const fresh = 10 * time.Minute

// madeAt is the time of a UUIDv7.
func madeAt(id task.ID) (time.Time, bool) {
	u := uuid.UUID(id)
	if u.Version() != 7 {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)), true
}

// Head is a task for which a later one of its order key waits.
type Head struct {
	task.Task

	Held bool // it is paused, or an operator has limited its queue
}

// Route names whose hints go the same way.
func (e Entry) Route() string { return Route(e.Owner, e.OrderKey) }

// SameQueue reports whether the members of two tasks that have the same id name the same queue: a member that does not name
// its row's queue is left over from before the task was requeued. Members have the default queue's name in the place of an
// empty one, and a question mark in that of their separators, which rows of other programs may hold.
func SameQueue(a, b task.Task) bool {
	return a.Queue == b.Queue || memberQueue(a) == memberQueue(b)
}

var queueSeparators = strings.NewReplacer("\x1e", "?", "\x1f", "?")

func memberQueue(t task.Task) string {
	return queueSeparators.Replace(cmp.Or(t.Queue, "default"))
}

// Standing is what the two sorted sets of a shard hold for one member.
type Standing struct {
	Due   Score // of the shard's due set; NoScore if absent
	Owner Score // of the owner's set; NoScore if absent
}

// Repair replaces exactly what was seen by what is right. It changes nothing if either set has moved on since.
type Repair struct {
	Task  task.Task // gives the member and its shard; state and version are not looked at
	Seen  Standing
	Right Standing
}

// Claim is what one shard answered to a claim.
type Claim struct {
	Fenced  int64     // > 0: refused, this newer epoch stands in the shard
	Entries []Entry   // due within the lead, in time order; nothing was removed
	Next    time.Time // the first entry after those; zero for none
	Coming  int       // entries beyond the lead that are due within MaxLead
	Marked  bool      // the generation marker stands: the shard's memory was not lost
}

// ScanCursor is a place in a walk over a shard's sets. The zero one begins the walk, and comes back at its end.
type ScanCursor struct {
	Keys    uint64   // where the walk over keys, or over the members of a single set, goes on
	Large   []string // names of sets that are too large for one page, of which the first is walked now
	Members uint64   // where the walk over its members goes on
}

// Done reports whether the walk has ended.
func (c ScanCursor) Done() bool { return c.Keys == 0 && len(c.Large) == 0 }

// Cursor is a place in a listing by (time, id); the next page begins after it.
type Cursor struct {
	At time.Time
	ID task.ID
}

// IDFromBytes reads the 16-byte form that MySQL and the index hold.
func IDFromBytes(b []byte) (task.ID, error) {
	u, err := uuid.FromBytes(b)
	if err != nil {
		return task.ID{}, fmt.Errorf("task id of %d bytes: %w", len(b), err)
	}
	return task.ID(u), nil
}

// IDs returns the tasks' ids, in their order.
func IDs(tasks []task.Task) []task.ID {
	ids := make([]task.ID, len(tasks))
	for i := range tasks {
		ids[i] = tasks[i].ID
	}
	return ids
}

// ByID returns the tasks by their ids.
func ByID(tasks []task.Task) map[task.ID]task.Task {
	found := make(map[task.ID]task.Task, len(tasks))
	for _, t := range tasks {
		found[t.ID] = t
	}
	return found
}
