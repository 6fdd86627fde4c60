// Package console gives operators' view of the pipeline and their changes of it, as data: a tool, a page or an API serves
// it. The tool duetime is made of it, so a service can do what the tool does. A service gets its console from
// duetime.Client.Console or embedded.Pipeline.Console.
//
// Fields that end in Ms are milliseconds, since 1970 in UTC if they are moments. A task or another thing that is not there is
// an error of package task: task.ErrNotFound, task.ErrNoRecurrence, task.ErrNoOperation. Input outside the limits is a
// *task.FieldError. After schedule.ErrCommitUnknown the change may have been made: look before you repeat it. All calls read
// MySQL; Frame, Leaders, Shards, Drift and Verify read Redis too.
//
// It promises that each change commits together with the line of history that names its author, or not at all. Only a
// rebuild, which changes no row, writes its line beforehand. The console counts only what it read: a part that could not
// be read is an error, or is reported as not checked. It prints nothing and knows no terminal: cmd/duetime has flags,
// questions, tables and exit codes. Of a pending task it changes only what a service may change, and the queue.
package console

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/console/internal/views"
	"github.com/duetime/duetime/pkg/encrypt"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Config names the deployment and its operator.
type Config struct {
	Namespace string
	Queues    []string              // of the configuration; operators may have added others
	Limits    map[string]task.Limit // of the configuration's queues
	Grace     time.Duration         // after which a pending row is overdue
	Retention time.Duration         // of finished rows, at least
	Actor     string                // who makes changes, for the history, such as user@host; default service@host
	Audits    []Audit               // of services, for their own data
	// Servers ask the servers besides the database, by the names Redis, Kafka and ZooKeeper, whether they answer.
	Servers map[string]func(ctx context.Context) error
}

// serviceActor returns the actor of a service that gives no other one.
func serviceActor() string {
	host, err := os.Hostname()
	if err != nil {
		return protocol.ActorService
	}
	return protocol.ActorService + "@" + host
}

// Console shows a deployment and changes it. It is safe for concurrent use.
type Console struct {
	cfg    Config
	store  *store.Store
	views  views.Views
	index  Index // nil: none
	client *schedule.Client
	pace   *pace
	kind   task.KindInfo // has the codec of WithKeys
}

// Index is what a console needs of the index in Redis.
type Index interface {
	driftIndex

	// Shards reads the first n shards.
	Shards(ctx context.Context, n int) ([]indexShard, error)
	// OwnerSets counts the owners' sets of the first n shards.
	OwnerSets(ctx context.Context, n int) ([]int64, error)
	// Unmark removes the markers of shards, as if their memory were lost.
	Unmark(ctx context.Context, shards []int) error
	// Away reports whether an error says that Redis is away.
	Away(err error) bool
}

// indexShard is the state of one shard; see index.Shard.
type indexShard = struct {
	Due    int64
	Oldest time.Time
	Marker string
	Epoch  int64
}

// New makes a console on open servers; without an index, x is nil. It is for our own wiring; services get theirs from
// Client.Console.
func New(cfg Config, st *store.Store, x Index, client *schedule.Client) *Console {
	cfg.Actor = cmp.Or(cfg.Actor, serviceActor())
	return &Console{cfg: cfg, store: st, views: views.Views{Store: st}, index: x, client: client, pace: &pace{}}
}

// As returns a console whose changes bear another actor in the history: an operator who is signed in to a page of the
// service, for example. An actor of more than 128 bytes is cut.
func (c *Console) As(actor string) *Console {
	other := *c
	other.cfg.Actor = actor
	return &other
}

// WithKeys returns a console that shows payloads in clear where these keys decrypt them. They stay encrypted in a console without it.
func (c *Console) WithKeys(keys encrypt.KeyFunc) *Console {
	other := *c
	encrypt.Payloads(keys)(&other.kind)
	return &other
}

// open returns the payload for people.
func (c *Console) decrypt(kind, owner, payload string) (text string, asJSON json.RawMessage) {
	if opened, err := c.kind.Payload(task.Task{Kind: kind, Owner: owner, Payload: []byte(payload)}); err == nil {
		payload = string(opened)
	}
	if json.Valid([]byte(payload)) {
		asJSON = json.RawMessage(payload)
	}
	return payload, asJSON
}

// clientTx runs fn in a transaction of the client, whose lines of history bear the console's actor.
func (c *Console) clientTx(ctx context.Context, fn func(tx *schedule.Tx) error) error {
	return c.client.InTx(ctx, func(tx *schedule.Tx) error { return fn(tx.As(c.cfg.Actor)) })
}

// advance calls a caller's function, if there is one, with the number of things that are done.
func advance(progress func(done int), done int) {
	if progress != nil {
		progress(done)
	}
}

// Grace returns how long a task may be due before it counts as overdue.
func (c *Console) Grace() time.Duration { return c.cfg.Grace }
