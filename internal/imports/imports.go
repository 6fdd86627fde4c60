package imports

import (
	"context"
	"encoding/json"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/pkg/task"
)

// Rows is what an import needs of MySQL.
type Rows interface {
	// Clock reads the database's clock.
	Clock(ctx context.Context) (time.Time, error)
	// Rows reads the rows of these ids without locking; it leaves out missing ones.
	Rows(ctx context.Context, ids []task.ID) ([]task.Task, error)
	// Import commits the tasks, each with a line of history that names the source, and has them put into the index. Of an id
	// that exists it leaves the row as it is.
	Import(ctx context.Context, specs []task.Spec, source string) error
}

// Source is a sorted set whose members become tasks: a *ZSet or an *Asynq.
type Source interface {
	// String names the source for people.
	String() string
	// Kinds returns the kinds of the tasks.
	Kinds() []Kind
	// set is the key of the sorted set.
	set() string
	// name is what the ids of the tasks are derived from, besides the member.
	name() []string
	// prepare is called once, before any other method but those above.
	prepare(ctx context.Context, from redis.Cmdable) error
	// score is that of a member that is due then.
	score(due time.Time) float64
	// read reads what the members ask for, in their order.
	read(ctx context.Context, from redis.Cmdable, members []member) ([]reading, error)
}

// Kind is a kind whose tasks carry the source's JSON as it is.
type Kind = task.Kind[json.RawMessage]

// NewKind makes a kind of words that an operator gave. It returns a *task.FieldError for words outside the limits.
func NewKind(name, queue string, maxAttempts int) (Kind, error) {
	info := task.KindInfo{Name: name, Queue: queue, MaxAttempts: maxAttempts}
	if err := info.Check(); err != nil {
		return Kind{}, err
	}
	return task.NewKind[json.RawMessage](name, task.Queue(queue), task.MaxAttempts(maxAttempts)), nil
}

// Config says which members become tasks, and whose.
type Config struct {
	// Label tells sources of the same name on different servers apart, and so do databases of one server. Both are part of
	// the tasks' ids: a run with another label makes every task once more.
	Label    string
	Database int

	OwnerFrom string    // the payload's top-level field that names the owner; empty: the member's id
	DueAfter  time.Time // only members that are due then or later; zero: all
	DueBefore time.Time // only members that are due before; zero: all
	Overdue   bool      // also members that are due further back than Retention, which may have run and been purged
	DryRun    bool      // read everything, write nothing

	Retention  func(kind string) time.Duration // of finished rows
	Progress   func(read, total int)           // called after each page; nil: nobody
	Unreadable func(Unreadable)                // called for each member that can't be read; nil: nobody
}

// Unreadable is a member that made no task.
type Unreadable struct {
	Member string `json:"member"` // the first maxShownMember bytes
	Reason string `json:"reason"`
}

// Result counts the members by what became of them.
type Result struct {
	Imported   int // made a task, or would in a dry run
	Present    int // have had their task before
	Left       int // had left the source when their content was read: the source's own worker has them
	Unreadable int // made no task, and were reported

	First []task.Task // the first tasks that a dry run would make, at most FirstTasks
}

// FirstTasks is how many tasks of a dry run Result.First has.
const FirstTasks = 10

const (
	pageSize       = task.MaxPerCall // members of one page, which makes one transaction
	maxShownMember = 200             // bytes of an unreadable member
)

// Run imports the members of the source, those due soonest first. After an error the result says what was done until then,
// and another run goes on.
func Run(ctx context.Context, cfg Config, from redis.Cmdable, source Source, rows Rows) (Result, error) {
	r := &run{cfg: cfg, from: from, source: source, rows: rows}
	err := r.everyPage(ctx)
	return r.sum, err
}
