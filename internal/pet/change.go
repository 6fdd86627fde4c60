package pet

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/duetime/duetime/pkg/schedule"
)

// timeLimit bounds a request with its retries, even if the database doesn't answer at all.
const timeLimit = 5 * time.Second

// operation is a checked request. It may run several times, each in a transaction of its own.
type operation func(ctx context.Context, tx *schedule.Tx) (answer, error)

// prepare checks a request and returns its operation.
type prepare func(r *http.Request, body []byte) (operation, error)

// change handles what all changes share: the body's limit, the Idempotency-Key, the transaction, the errors.
func (a *API) change(prep prepare) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		op, err := a.prepared(w, r, prep)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		ans, err := a.run(r, op)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		a.write(w, ans)
	}
}

func (a *API) prepared(w http.ResponseWriter, r *http.Request, prep prepare) (operation, error) {
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return nil, err
	}
	op, err := prep(r, body)
	if err != nil || key == "" {
		return op, err
	}
	id := sha256.Sum256([]byte(r.Method + "\n" + r.URL.Path + "\n" + key))
	return a.once(requestKey{id: id, body: sha256.Sum256(body)}, op), nil
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, failure{http.StatusRequestEntityTooLarge, "too_large", "the body must be at most 65536 bytes", ""}
	case err != nil:
		return nil, invalid("body", "must arrive whole")
	}
	return body, nil
}

// idempotencyKey reads the header: 1 to 128 printable ASCII characters; empty without the header.
func idempotencyKey(r *http.Request) (string, error) {
	values, present := r.Header["Idempotency-Key"]
	if !present {
		return "", nil
	}
	key := values[0]
	sound := len(values) == 1 && len(key) >= 1 && len(key) <= 128
	for i := range len(key) {
		sound = sound && key[i] >= ' ' && key[i] <= '~'
	}
	if !sound {
		return "", invalid("Idempotency-Key", "must be 1 to 128 printable ASCII characters")
	}
	return key, nil
}

// once makes a change happen once for its key. The answer is stored in the transaction of the change. A refusal by the
// rules is stored too: nothing else was written then.
func (a *API) once(key requestKey, op operation) operation {
	return func(ctx context.Context, tx *schedule.Tx) (answer, error) {
		kept, err := key.claim(ctx, tx)
		if err != nil {
			return answer{}, err
		}
		if kept != nil {
			return *kept, nil
		}
		ans, err := op(ctx, tx)
		if refusal := (rule{}); errors.As(err, &refusal) {
			ans, err = refusal.failure().answer(), nil
		}
		if err != nil {
			return answer{}, err
		}
		return ans, key.keep(ctx, tx, ans)
	}
}

// run runs the operation in a transaction.
func (a *API) run(r *http.Request, op operation) (ans answer, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), timeLimit)
	defer cancel()
	err = a.client.InTx(ctx, func(tx *schedule.Tx) (err error) {
		ans, err = op(ctx, tx)
		return waited(err)
	})
	return ans, err
}

// lockWait is MySQL's answer to a statement that waited for a row longer than the session's limit, 2 s.
const lockWait = 1205

// waited hides a lock wait from InTx, which would run the transaction again and wait as long: the caller gets "busy"
// instead.
func waited(err error) error {
	var e *mysql.MySQLError
	if errors.As(err, &e) && e.Number == lockWait {
		return busyError{err.Error()}
	}
	return err
}

// busyError says that another transaction held a row for too long.
type busyError struct{ what string }

func (e busyError) Error() string { return e.what }
