package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
)

// The leaderships: event, whose epoch is stored in the shards, and daemon.
const (
	LeaderEvent  = "event"
	leaderDaemon = "daemon"
)

// LeaderNames returns the names of the leaderships.
func LeaderNames() []string { return []string{LeaderEvent, leaderDaemon} }

// CheckLeader returns an error unless name is the name of a leadership.
func CheckLeader(name string) error {
	if names := LeaderNames(); !slices.Contains(names, name) {
		return fmt.Errorf("%q is neither %s", name, strings.Join(names, " nor "))
	}
	return nil
}

// Leader is the newest term of a leadership.
type Leader struct {
	Name    string `json:"name"`
	Epoch   int64  `json:"epoch"`            // in MySQL; 0 if nobody has ever led
	Shards  *int   `json:"shards,omitempty"` // of event: shards that were claimed under the epoch
	Of      *int   `json:"of,omitempty"`
	Resigns bool   `json:"resigns"`        // it was asked to resign
	Host    string `json:"host,omitempty"` // of the living process that says that it leads this term; empty if none does
}

// Leaders reads the newest terms, and which living processes lead them.
func (c *Console) Leaders(ctx context.Context) ([]Leader, error) {
	epochs, asked := map[string]int64{}, map[string]int64{}
	var err error
	for _, name := range LeaderNames() {
		if epochs[name], err = c.store.Current(ctx, name); err != nil {
			return nil, err
		}
		if asked[name], err = c.store.Resigned(ctx, name); err != nil {
			return nil, err
		}
	}
	alive, err := c.store.Processes(ctx)
	if err != nil {
		return nil, err
	}
	shards, err := c.indexShards(ctx)
	if err != nil {
		return nil, err
	}
	leaders := leadersOf(epochs, alive, shards)
	for i, l := range leaders {
		leaders[i].Resigns = l.Epoch > 0 && asked[l.Name] >= l.Epoch
	}
	return leaders, nil
}

// leadersOf finds the processes that lead, and counts for event how many shards have its epoch.
func leadersOf(epochs map[string]int64, alive []store.Process, shards []indexShard) []Leader {
	var leaders []Leader
	for _, name := range LeaderNames() {
		l := Leader{Name: name, Epoch: epochs[name]}
		for _, p := range alive {
			if p.Role == name && p.Detail.Epoch == l.Epoch && l.Epoch > 0 {
				l.Host = p.Host
			}
		}
		if name == LeaderEvent && len(shards) > 0 {
			l.Shards, l.Of = new(int), new(len(shards))
			for _, s := range shards {
				if s.Epoch == l.Epoch {
					*l.Shards++
				}
			}
		}
		leaders = append(leaders, l)
	}
	return leaders
}

// ErrNeverLed answers a request to resign if no process has ever led.
var ErrNeverLed = errors.New("nobody has ever led")

const (
	resignTimeout = 20 * time.Second      // leaders read requests each second; a hand-over may take a session's timeout
	resignPoll    = 20 * time.Millisecond // between two reads of the epoch
)

// Resigned describes a hand-over.
type Resigned struct {
	Epoch  int64         // of the successor
	Before int64         // of the leader that was asked
	Took   time.Duration // from the request to the successor's term
}

// Term reads the newest term of a leadership; 0 if nobody has ever led.
func (c *Console) Term(ctx context.Context, name string) (int64, error) {
	if err := CheckLeader(name); err != nil {
		return 0, err
	}
	return c.store.Current(ctx, name)
}

// Resign makes the leader of this name, "event" or "daemon", hand over, and waits for the successor's term, for at most
// 20 s. It asks the leader of a term, and nobody if another term has begun since; 0 is the newest. It answers ErrNeverLed.
func (c *Console) Resign(ctx context.Context, name string, term int64) (Resigned, error) {
	if err := CheckLeader(name); err != nil {
		return Resigned{}, err
	}
	began := time.Now()
	epoch, err := c.askToResign(ctx, name, term)
	if err != nil {
		return Resigned{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, resignTimeout)
	defer cancel()
	for {
		now, err := c.store.Current(ctx, name)
		if err == nil && now > epoch {
			return Resigned{Epoch: now, Before: epoch, Took: time.Since(began)}, nil
		}
		if loop.Sleep(ctx, resignPoll); ctx.Err() != nil {
			return Resigned{}, fmt.Errorf("%s: epoch %d was not followed by another within %v: does any process lead?", name, epoch, resignTimeout)
		}
	}
}

// askToResign asks the leader of this name to end its term, unless it is later than the one given, and returns the epoch of the term
// that ends.
func (c *Console) askToResign(ctx context.Context, name string, term int64) (epoch int64, err error) {
	if epoch, err = c.store.Current(ctx, name); err != nil {
		return 0, err
	}
	if epoch == 0 {
		return 0, fmt.Errorf("%s: %w", name, ErrNeverLed)
	}
	if term > 0 && term < epoch {
		return term, nil
	}
	return epoch, c.inTx(ctx, func(tx *sqlx.Tx, changes *ledger.Tx) error {
		if err := c.store.Resign(ctx, tx, name, epoch, changes.Moment()); err != nil {
			return err
		}
		changes.Note(event(changes, protocol.EventResign, fmt.Sprintf("%s, epoch %d", name, epoch)))
		return nil
	})
}
