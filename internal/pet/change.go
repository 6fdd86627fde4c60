package pet

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/duetime/duetime/pkg/schedule"
)

const (
	changeLimit = 5 * time.Second // how long a change may take, retries included
	moveTries   = 10              // how often a change begins again because the pet changed meanwhile
)

// change wraps what all changes have in common: the body's limit, the Idempotency-Key, the transaction, the errors.
func (a *API) change(prep prepare) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			a.fail(w, r, err)
			return
		}
		key, keyed, err := idempotencyKey(r)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		op, err := prep(r, body)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), changeLimit)
		defer cancel()
		var ans answer
		if keyed {
			ans, err = a.once(ctx, newRequestKey(r.Method, r.URL.Path, key, body), op)
		} else {
			ans, err = a.run(ctx, op)
		}
		if err != nil {
			a.fail(w, r, err)
			return
		}
		a.write(w, ans)
	}
}

// idempotencyKey reads the header: 1 to 128 printable ASCII characters.
func idempotencyKey(r *http.Request) (key string, present bool, err error) {
	values, present := r.Header["Idempotency-Key"]
	if !present {
		return "", false, nil
	}
	key = values[0]
	if len(values) > 1 || len(key) < 1 || len(key) > 128 {
		return "", false, invalid("Idempotency-Key", "must be 1 to 128 printable ASCII characters")
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return "", false, invalid("Idempotency-Key", "must be 1 to 128 printable ASCII characters")
		}
	}
	return key, true, nil
}

// run carries out a change without a key.
func (a *API) run(ctx context.Context, op operation) (answer, error) {
	return a.again(ctx, func(tx *schedule.Tx) (answer, error) {
		status, body, err := op(ctx, tx)
		return answer{status, encode(body)}, err
	})
}

// once carries out a change with a key. Its answer is kept in the same transaction, so it is there exactly when the
// change is; a refusal by the rules is kept too, and changes nothing else: rules are looked at before anything is
// written.
func (a *API) once(ctx context.Context, key requestKey, op operation) (answer, error) {
	return a.again(ctx, func(tx *schedule.Tx) (answer, error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return answer{}, err
		}
		kept, err := key.claim(ctx, tx, a.game.tables.forUpdate, now)
		if err != nil {
			return answer{}, err
		}
		if kept != nil {
			return *kept, nil
		}
		status, body, err := op(ctx, tx)
		ans := answer{status, encode(body)}
		if refusal := (rule{}); errors.As(err, &refusal) {
			ans, err = refusal.failure().answer(), nil
		}
		if err != nil {
			return answer{}, err
		}
		return ans, key.keep(ctx, tx, ans)
	})
}

// again runs fn in a transaction, and in another one while it finds that the pet has changed between two looks.
func (a *API) again(ctx context.Context, fn func(tx *schedule.Tx) (answer, error)) (answer, error) {
	var busy error // the last lock wait or deadlock: when time runs out, it is why
	ans, err := backoff.Retry(ctx, func() (answer, error) {
		var ans answer
		err := a.client.InTx(ctx, func(tx *schedule.Tx) (err error) {
			ans, err = fn(tx)
			if schedule.IsRetryable(err) {
				busy = err
			}
			return err
		})
		if err != nil && !errors.Is(err, errMoved) {
			err = backoff.Permanent(err)
		}
		return ans, err
	}, backoff.WithMaxTries(moveTries), backoff.WithBackOff(&backoff.ExponentialBackOff{
		InitialInterval: time.Millisecond, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: 50 * time.Millisecond,
	}))
	if err != nil && ctx.Err() != nil && busy != nil {
		return ans, busy
	}
	return ans, err
}
