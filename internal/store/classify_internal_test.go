package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/duetime/duetime/internal/trust"
	"github.com/duetime/duetime/pkg/task"
)

// movable is a caller's error with a Retryable method.
type movable bool

func (m movable) Error() string   { return "pet has moved" }
func (m movable) Retryable() bool { return bool(m) }

func answer(number uint16, state, text string) error {
	return &mysql.MySQLError{Number: number, SQLState: [5]byte([]byte(state)), Message: text}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	deadlock, full, broken := answer(1213, "40001", ""), answer(1114, "HY000", ""), mysql.ErrInvalidConn
	dial := &net.OpError{Op: "dial", Err: io.EOF}
	for name, c := range map[string]struct {
		err                             error
		class                           Class
		commit                          Class // of the same error, as an answer to COMMIT
		retryable, unavailable, unclear bool  // unclear: as an answer to an autocommit statement
	}{
		"nil":                        {nil, Other, Other, false, false, false},
		"unknown":                    {errors.New("odd"), Other, Ambiguous, false, false, true},
		"deadlock":                   {deadlock, Retryable, Retryable, true, false, false},
		"lock wait":                  {answer(1205, "HY000", ""), Retryable, Retryable, true, false, false},
		"another rollback":           {answer(9001, "40000", ""), Retryable, Retryable, true, false, false},
		"conflict":                   {fmt.Errorf("save: %w", &conflictError{0, 1}), Retryable, Ambiguous, true, false, false},
		"lost by a deadlock":         {&PoisonedError{deadlock}, Retryable, Retryable, true, false, false},
		"lost with its connection":   {&PoisonedError{broken}, Lost, Lost, true, true, false},
		"lost by a full disk":        {&PoisonedError{full}, Full, Full, false, true, false},
		"lost by its context":        {&PoisonedError{context.Canceled}, Canceled, Canceled, false, false, false},
		"a caller's own":             {movable(true), Retryable, Ambiguous, true, false, true},
		"a caller's own, for good":   {fmt.Errorf("%w: %w", movable(false), deadlock), Other, Other, false, false, false},
		"a caller's own, lost":       {fmt.Errorf("%w: %w", movable(true), broken), Lost, Ambiguous, true, true, true},
		"broken":                     {broken, Lost, Ambiguous, true, true, true},
		"never sent":                 {driver.ErrBadConn, Lost, Lost, true, true, false},
		"EOF":                        {io.ErrUnexpectedEOF, Lost, Ambiguous, true, true, true},
		"old primary":                {fmt.Errorf("read: %w", errReadOnly), Lost, Ambiguous, true, true, true},
		"no connection":              {dial, Unavailable, Ambiguous, false, true, false},
		"connection returned":        {sql.ErrConnDone, Unavailable, Ambiguous, false, true, true},
		"stopping":                   {answer(1053, "08S01", ""), Unavailable, Ambiguous, false, true, true},
		"no schema":                  {answer(1049, "42000", ""), NoDatabase, Ambiguous, false, true, false},
		"no table":                   {answer(1146, "42S02", ""), NoTable, Ambiguous, false, false, false},
		"key taken":                  {answer(1062, "23000", ""), Duplicate, Ambiguous, false, false, false},
		"read-only":                  {answer(1290, "HY000", "with the --read-only option"), ReadOnly, ReadOnly, false, true, false},
		"another option":             {answer(1290, "HY000", "with the --secure-file-priv option"), Unavailable, Unavailable, false, true, false},
		"full":                       {full, Full, Ambiguous, false, true, false},
		"no right":                   {answer(1142, "42000", ""), Refused, Ambiguous, false, false, false},
		"wrong password":             {&trust.Refusal{Key: "mysql.dsn", Err: answer(1045, "28000", "")}, Refused, Ambiguous, false, false, false},
		"parameter of a connection":  {&trust.Refusal{Key: "mysql.dsn", Err: answer(1193, "HY000", "")}, Refused, Ambiguous, false, false, false},
		"variable of a statement":    {answer(1193, "HY000", ""), BadSetting, Ambiguous, false, false, true},
		"no TLS":                     {&trust.Refusal{Key: "mysql.tls.ca_file", Err: mysql.ErrNoTLS}, Untrusted, Ambiguous, false, true, false},
		"the caller left":            {context.Canceled, Canceled, Canceled, false, false, true},
		"the caller left a deadlock": {fmt.Errorf("%w, after %w", context.Canceled, deadlock), Other, Other, false, false, false},
		"closed":                     {closed(errors.New("sql: database is closed")), Other, Other, false, false, false},
		"over":                       {sql.ErrTxDone, Other, Other, false, false, false},
		"COMMIT without an answer":   {&ambiguousError{broken}, Ambiguous, Ambiguous, false, true, true},
		"COMMIT in unclear words":    {&ambiguousError{answer(1180, "HY000", "")}, Ambiguous, Ambiguous, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &Store{}
			if got := Classify(c.err); got != c.class {
				t.Errorf("class %d, want %d", got, c.class)
			}
			if got := ClassifyCommit(c.err); got != c.commit || s.Ambiguous(c.err) != (c.commit == Ambiguous) {
				t.Errorf("as an answer to COMMIT: class %d, want %d", got, c.commit)
			}
			if s.Retryable(c.err) != c.retryable || s.Unavailable(c.err) != c.unavailable {
				t.Errorf("retryable %v, unavailable %v; want %v, %v", s.Retryable(c.err), s.Unavailable(c.err), c.retryable, c.unavailable)
			}
			if got := s.Unclear(markUnlessRefused(c.err)); got != c.unclear {
				t.Errorf("unclear %v, want %v", got, c.unclear)
			}
			if Refusal(c.err) != nil != c.class.Refused() {
				t.Errorf("refusal %v of class %d", Refusal(c.err), c.class)
			}
		})
	}
	if err := markUnlessRefused(errors.New("sql: database is closed")); !errors.Is(err, task.ErrClosed) {
		t.Errorf("%v, want %v", err, task.ErrClosed)
	}
}
