package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/pkg/task"
)

// What is led: firing, whose epoch the shards have, and repairing.
const (
	LeaderEvent  = "event"
	LeaderDaemon = "daemon"
)

// LeaderNames returns what is led.
func LeaderNames() []string { return []string{LeaderEvent, LeaderDaemon} }

// CheckLeader is an error if nothing of this name is led.
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
	Shards  *int   `json:"shards,omitempty"` // of event: those that were claimed under it
	Of      *int   `json:"of,omitempty"`
	Resigns bool   `json:"resigns"` // it was asked to
}

// Leaders reads the newest terms.
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
	shards, err := c.indexShards(ctx)
	if err != nil {
		return nil, err
	}
	leaders := leadersOf(epochs, shards)
	for i, l := range leaders {
		leaders[i].Resigns = l.Epoch > 0 && asked[l.Name] >= l.Epoch
	}
	return leaders, nil
}

// leadersOf says of the epochs how many shards stand at that of event.
func leadersOf(epochs map[string]int64, shards []index.Shard) []Leader {
	var leaders []Leader
	for _, name := range LeaderNames() {
		l := Leader{Name: name, Epoch: epochs[name]}
		if name == LeaderEvent {
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

// ErrNeverLed answers the request to resign where nobody has ever led.
var ErrNeverLed = errors.New("nobody has ever led")

const (
	resignTimeout = 20 * time.Second      // a look each second, a hand-over, and a session's timeout to spare
	resignPoll    = 20 * time.Millisecond // between looks at the epoch
)

// Resigned is how a leader handed over.
type Resigned struct {
	Epoch  int64         // of the successor
	Before int64         // of the leader that was asked
	Took   time.Duration // from the request to the successor's term
}

// Resign has the leader of this name hand over, and waits for the successor's term.
func (c *Console) Resign(ctx context.Context, name string) (Resigned, error) {
	if err := CheckLeader(name); err != nil {
		return Resigned{}, err
	}
	began := time.Now()
	epoch, err := c.askToResign(ctx, name)
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
		select {
		case <-ctx.Done():
			return Resigned{}, fmt.Errorf("%s: epoch %d was not followed by another within %v: does any process lead?", name, epoch, resignTimeout)
		case <-time.After(resignPoll):
		}
	}
}

// askToResign asks the leader of this name to end its term, and gives the epoch of that term.
func (c *Console) askToResign(ctx context.Context, name string) (epoch int64, err error) {
	if epoch, err = c.store.Current(ctx, name); err != nil {
		return 0, err
	}
	if epoch == 0 {
		return 0, fmt.Errorf("%s: %w", name, ErrNeverLed)
	}
	return epoch, c.inTx(ctx, func(tx *sqlx.Tx, now time.Time) error {
		if err := c.store.Resign(ctx, tx, name, epoch, now); err != nil {
			return err
		}
		return c.record(ctx, tx, now, task.EventResign, fmt.Sprintf("%s, epoch %d", name, epoch))
	})
}
