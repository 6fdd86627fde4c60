package schedule

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/kinds"
	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/pkg/task"
)

// Inside opens a transaction to our own worker, daemon, console and API. Services have no key.
func Inside(_ inside.Key, t *Tx) inside.Tx[*Tx] { return insideTx{t} }

type insideTx struct{ tx *Tx }

func (i insideTx) Ledger() *ledger.Tx { return i.tx.ledger }

func (i insideTx) Only(allowed *kinds.Kinds, before func(context.Context, task.Spec) (task.Spec, error)) {
	i.tx.kinds, i.tx.before = allowed, before
}

func (i insideTx) AssumeUnblocked(owners []string) { i.tx.assumeUnblocked(owners) }

func (i insideTx) For(call inside.Call, own []task.ID, renew func(task.Task) task.Task) *Tx {
	tx := *i.tx
	tx.call, tx.own, tx.renewal = call, own, renew
	return &tx
}

func (i insideTx) Handlers() (inside.Tx[*Tx], *sqlx.Tx) {
	own, _ := i.tx.db.(*sqlx.Tx)
	return insideTx{&Tx{db: own, rows: i.tx.rows, ledger: i.tx.ledger, guard: i.tx.guard, tracer: i.tx.tracer}}, own
}

func (i insideTx) AsOf(at time.Time) { i.tx.asOf = at }

func (i insideTx) EndBlocked(ctx context.Context, owner string) error {
	blocked, err := i.tx.rows.LockBlock(ctx, i.tx.db, owner)
	if err == nil && blocked {
		_, _, err = i.tx.endOwner(ctx, owner)
	}
	return err
}

func (i insideTx) Scope(inScope func(kind string) bool) { i.tx.inScope = inScope }

func (i insideTx) RunRecurrenceOnce(ctx context.Context, owner, name string, id task.ID) (task.Task, error) {
	return i.tx.runRecurrence(ctx, owner, name, id)
}

// InsideClient opens a client likewise.
func InsideClient(_ inside.Key, c *Client) inside.Client { return insideClient{c} }

type insideClient struct{ client *Client }

func (i insideClient) Ledger() *ledger.Ledger { return i.client.ledger }

func (i insideClient) BlockOwner(ctx context.Context, actor, owner string) (cancelled int, err error) {
	return blockOwner(ctx, owner, i.client.inTxAs(actor))
}

func (i insideClient) UnblockOwner(ctx context.Context, actor, owner string) error {
	return unblockOwner(ctx, owner, i.client.inTxAs(actor))
}
