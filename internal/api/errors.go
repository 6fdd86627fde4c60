package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// domain is whose reasons an ErrorInfo holds.
const domain = "duetime"

// Reasons of errors, for programs: the field reason of an ErrorInfo. docs/API.md lists them.
const (
	reasonStale         = "STALE_VERSION"
	reasonDone          = "ALREADY_DONE"
	reasonCancelled     = "ALREADY_CANCELLED"
	reasonDead          = "ALREADY_DEAD"
	reasonNotDead       = "NOT_DEAD"
	reasonDue           = "ALREADY_DUE"
	reasonNotSoon       = "NOT_DUE_SOON"
	reasonKeyTaken      = "KEY_TAKEN"
	reasonIDTaken       = "ID_TAKEN"
	reasonCallKeyTaken  = "IDEMPOTENCY_KEY_TAKEN"
	reasonNameTaken     = "NAME_TAKEN"
	reasonOver          = "OPERATION_OVER"
	reasonBlocked       = "OWNER_BLOCKED"
	reasonSealed        = "GROUP_SEALED"
	reasonQueueUsed     = "QUEUE_USED"
	reasonNoTask        = "NO_TASK"
	reasonNoRecurrence  = "NO_RECURRENCE"
	reasonNoOperation   = "NO_OPERATION"
	reasonNoGroup       = "NO_GROUP"
	reasonScope         = "OUT_OF_SCOPE"
	reasonRole          = "ROLE"
	reasonRunning       = "TASK_RUNNING"
	reasonTryLater      = "TRY_LATER"
	reasonAway          = "DATABASE_AWAY"
	reasonFull          = "DATABASE_FULL"
	reasonTimeout       = "CALL_TIMEOUT"
	reasonStopping      = "STOPPING"
	reasonWatches       = "TOO_MANY_WATCHES"
	reasonCommitUnknown = "COMMIT_UNKNOWN"
	reasonNoCall        = "NO_CALL"
	reasonHTTPMethod    = "HTTP_METHOD"
	reasonContentType   = "CONTENT_TYPE"
)

var (
	errIDTaken      = errors.New("another task has this task_id")
	errCallKeyTaken = errors.New("a call with another payload has this idempotency_key")
	errTooManyOpen  = fmt.Errorf("%d streams are open already", maxWatches)
	errShareOpen    = fmt.Errorf("the caller has %d streams open already", maxCallerWatches)
	errStopping     = errors.New("the server stops")
)

// staleError answers a change of a task that has another version than its caller has seen.
type staleError struct{ seen, stands int64 }

func (e staleError) Error() string {
	return fmt.Sprintf("the task has version %d, not %d: nothing was changed", e.stands, e.seen)
}

// fieldError is an error of a part of the request.
type fieldError struct {
	path string // of the part: task, tasks[3], …
	err  error
}

func (e fieldError) Error() string { return e.path + ": " + e.err.Error() }

func (e fieldError) Unwrap() error { return e.err }

// inField returns nil, or the error as one of a part of the request.
func inField(path string, err error) error {
	if err == nil {
		return nil
	}
	return fieldError{path, err}
}

// pathTo is the path of a field of the part of the request that an error is about.
func pathTo(err error, field string) string {
	var path strings.Builder
	for part, is := errors.AsType[fieldError](err); is; part, is = errors.AsType[fieldError](part.err) {
		path.WriteString(part.path + ".")
	}
	return path.String() + field
}

// answers are the errors that callers see, with the code and the reason of each.
var answers = []struct {
	err    error
	code   connect.Code
	reason string
}{
	{schedule.ErrCommitUnknown, connect.CodeUnknown, reasonCommitUnknown},
	{task.ErrAlreadyDone, connect.CodeFailedPrecondition, reasonDone},
	{task.ErrAlreadyCancelled, connect.CodeFailedPrecondition, reasonCancelled},
	{task.ErrAlreadyDead, connect.CodeFailedPrecondition, reasonDead},
	{task.ErrNotDead, connect.CodeFailedPrecondition, reasonNotDead},
	{task.ErrDue, connect.CodeFailedPrecondition, reasonDue},
	{task.ErrUnmet, connect.CodeFailedPrecondition, reasonNotSoon},
	{task.ErrOperationOver, connect.CodeFailedPrecondition, reasonOver},
	{task.ErrOwnerBlocked, connect.CodeFailedPrecondition, reasonBlocked},
	{task.ErrGroupSealed, connect.CodeFailedPrecondition, reasonSealed},
	{task.ErrKeyTaken, connect.CodeAlreadyExists, reasonKeyTaken},
	{task.ErrNameTaken, connect.CodeAlreadyExists, reasonNameTaken},
	{task.ErrOperationTaken, connect.CodeAlreadyExists, reasonIDTaken},
	{task.ErrNotFound, connect.CodeNotFound, reasonNoTask},
	{task.ErrNoRecurrence, connect.CodeNotFound, reasonNoRecurrence},
	{task.ErrNoOperation, connect.CodeNotFound, reasonNoOperation},
	{task.ErrNoGroup, connect.CodeNotFound, reasonNoGroup},
	{task.ErrRunning, connect.CodeUnavailable, reasonRunning},
	{errTooManyOpen, connect.CodeResourceExhausted, reasonWatches},
	{errShareOpen, connect.CodeResourceExhausted, reasonWatches},
	{errStopping, connect.CodeUnavailable, reasonStopping},
	{task.ErrClosed, connect.CodeUnavailable, reasonStopping},
}

// failures places errors of the library into answers.
type failures struct {
	unavailable func(err error) bool
	full        func(err error) bool
	log         *slog.Logger
	away        loop.WarnThrottle
}

// logAway logs why the database is away.
func (f *failures) logAway(procedure string, err error) {
	f.away.Warn(f.log, time.Now(), "database is away", "method", procedure, "err", err.Error())
}

// answer returns the error that the caller gets.
func (f *failures) answer(ctx context.Context, procedure string, err error) *connect.Error {
	if known, is := errors.AsType[*connect.Error](err); is {
		return known
	}
	if wrong := violation(err); wrong != nil {
		return wrong
	}
	if stale, is := errors.AsType[staleError](err); is {
		return reasoned(connect.CodeAborted, stale, reasonStale, map[string]string{"version": strconv.FormatInt(stale.stands, 10)})
	}
	if used, is := errors.AsType[*console.QueueUsedError](err); is {
		return reasoned(connect.CodeFailedPrecondition, used, reasonQueueUsed, nil)
	}
	if errors.Is(err, errIDTaken) {
		return reasoned(connect.CodeAlreadyExists, errIDTaken, reasonIDTaken, map[string]string{"field": pathTo(err, "task_id")})
	}
	if errors.Is(err, errCallKeyTaken) {
		return reasoned(connect.CodeAlreadyExists, errCallKeyTaken, reasonCallKeyTaken, map[string]string{"field": pathTo(err, "idempotency_key")})
	}
	for _, k := range answers {
		if errors.Is(err, k.err) {
			return reasoned(k.code, k.err, k.reason, nil)
		}
	}
	return f.trouble(ctx, procedure, err)
}

// trouble is the answer to an error that is not the caller's. Its text may be the database's: it is logged, and not shown. The
// answers with a reason are true whatever the call was: where a COMMIT may have taken effect, the error is ErrCommitUnknown.
func (f *failures) trouble(ctx context.Context, procedure string, err error) *connect.Error {
	switch {
	case errors.Is(err, errPanic): // perhaps after a COMMIT
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded):
		return reasoned(connect.CodeDeadlineExceeded, errors.New("the call's time is over: nothing was changed"), reasonTimeout, nil)
	case errors.Is(err, context.Canceled) || ctx.Err() != nil:
		return connect.NewError(connect.CodeCanceled, errors.New("the call was given up: nothing was changed"))
	case f.full(err):
		f.logAway(procedure, err)
		return reasoned(connect.CodeUnavailable, errors.New("the database's disk is full: nothing was changed"), reasonFull, nil)
	case f.unavailable(err):
		f.logAway(procedure, err)
		return reasoned(connect.CodeUnavailable, errors.New("the database can't be reached: nothing was changed"), reasonAway, nil)
	case schedule.IsRetryable(err):
		return reasoned(connect.CodeUnavailable, errors.New("others were in the way: nothing was changed, try again"), reasonTryLater, nil)
	}
	f.log.LogAttrs(ctx, slog.LevelError, "api call failed", slog.String("method", procedure), slog.String("err", err.Error()))
	return connect.NewError(connect.CodeInternal, errors.New("the server has failed, and has logged why"))
}

// violation names the field that broke a limit; nil for another error.
func violation(err error) *connect.Error {
	code, reason, field, problem := connect.CodeInvalidArgument, "", "", ""
	if wrong, is := errors.AsType[*task.FieldError](err); is {
		field, problem = wrong.Field, wrong.Problem
	} else if wrong, is := errors.AsType[*recur.FieldError](err); is {
		field, problem = wrong.Field, wrong.Problem
	} else if outside, is := errors.AsType[errScope](err); is {
		code, reason, field, problem = connect.CodePermissionDenied, reasonScope, outside.field, outside.problem
	} else {
		return nil
	}
	switch name, ofOne := strings.CutPrefix(field, "label "); { // the library's words for one of them
	case ofOne:
		field, problem = "labels", fmt.Sprintf("%q %s", name, problem)
	case field == "label":
		field = "labels"
	}
	field = pathTo(err, field)
	violations := []*errdetails.BadRequest_FieldViolation{{Field: field, Description: problem}}
	said := errors.New(strings.TrimSpace(field + " " + problem)) // a problem of the whole message has no field
	failed := connect.NewError(code, said)
	if reason != "" {
		failed = reasoned(code, said, reason, nil)
	}
	return detailed(failed, &errdetails.BadRequest{FieldViolations: violations})
}

// reasoned makes an error with a reason for programs.
func reasoned(code connect.Code, err error, reason string, metadata map[string]string) *connect.Error {
	return detailed(connect.NewError(code, err), &errdetails.ErrorInfo{Reason: reason, Domain: domain, Metadata: metadata})
}

func detailed(to *connect.Error, message proto.Message) *connect.Error {
	if detail, err := connect.NewErrorDetail(message); err == nil {
		to.AddDetail(detail)
	}
	return to
}
