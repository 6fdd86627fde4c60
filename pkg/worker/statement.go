package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/duetime/duetime/internal/statement"
)

// A handler shares its transaction with other tasks, and its connection with whoever uses it next. A statement that ends the
// transaction would make the effects of all before it last without the word "done", and what follows commit one by one. So:
//
//   - A statement that certainly ends the transaction is refused before it is sent.
//   - One that may do so out of sight (CALL, EXECUTE) is preceded by the word "done" for what has run, which then lasts or goes
//     with its effects, and by a savepoint. Is that gone when the handler returns, so is the transaction: the handler has
//     failed, and all else runs in another one.
//
// What a statement leaves in the session (a variable, a temporary table) goes with the connection: the store does not use it
// again.

// errEnds refuses a statement that would end the transaction.
var errEnds = errors.New("worker: this statement would end the transaction that the handler shares with other tasks")

// errEnded is the failure of a handler that ended the transaction.
var errEnded = errors.New("worker: the handler ended the transaction that it shares with other tasks")

// admit makes ctx end with the handler's time, as within does, and refuses a statement that ends the transaction.
func (t *Tx) admit(ctx context.Context, query string) (context.Context, error) {
	switch statement.EffectOf(query) {
	case statement.Plain:
		return t.within(ctx), nil
	case statement.Ends:
		word, _ := statement.FirstWord(query)
		return nil, fmt.Errorf("%w: %s", errEnds, word)
	default:
		ctx, err := t.sees(ctx)
		if err != nil {
			return nil, err
		}
		return ctx, t.try.watch(ctx)
	}
}

// admitted is admit for a call that can't return an error of its own: its ctx has ended before the statement is sent.
func (t *Tx) admitted(ctx context.Context, query string) context.Context {
	allowed, err := t.admit(ctx, query)
	if err == nil {
		return allowed
	}
	ended, cancel := context.WithCancelCause(ctx)
	cancel(err)
	return ended
}

// watch has stands tell whether the transaction goes on.
func (t *try) watch(ctx context.Context) error {
	if t.watched {
		return nil
	}
	t.watched = true
	_, err := t.tx.ExecContext(ctx, "SAVEPOINT duetime_stands")
	return err
}

// stands reports whether the transaction still is the one that was watched. It is true where nothing was watched, or where
// the connection is lost, which others find out.
func (t *try) stands() bool {
	if !t.watched {
		return true
	}
	t.watched = false
	_, err := t.tx.ExecContext(t.ctx, "RELEASE SAVEPOINT duetime_stands")
	return err == nil || t.store.Unavailable(err) || t.store.Retryable(err) || t.ctx.Err() != nil
}
