package task

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// KindInfo is what a kind says about all its tasks. The scheduling side copies Queue and MaxAttempts into each row; the
// worker's side uses Backoff.
type KindInfo struct {
	Name        string
	Was         []string // names that the kind had before
	Queue       string   // default "default"
	MaxAttempts int      // default 25
	Backoff     Backoff  // default DefaultBackoff

	// CatchUpWindow is how late the first try may begin; 0, the default, sets no bound.
	CatchUpWindow time.Duration
	// Timeout bounds one call of the handler; 0, the default, is the worker's bound (worker.handler_timeout).
	Timeout time.Duration
	// Batch bounds the kind's tasks in one transaction; 0, the default, is the worker's bound (worker.batch).
	Batch int
	// StrictPayload refuses a payload with a field that the payload's type lacks.
	StrictPayload bool
	// Priority decides which of the queue's due tasks run first.
	Priority PriorityLevel
	// InOrder has tasks with one order key take effect in the order of their due times.
	InOrder bool
	// Codec gives payloads the form that they have outside the processes which schedule and run them. Package encrypt has one.
	Codec Codec
}

// Codec changes the JSON of payloads on its way into a row and back. What it encodes is JSON again; equal payloads of one kind and owner
// should be encoded alike, else a recurrence that is defined again counts as changed. Decode is also given payloads that were scheduled
// before the kind had the codec. An error of Encode refuses the call that schedules. In a worker Decode is a part of the
// handler: its error, its panic and its time are the handler's. A codec is used by many goroutines at once.
type Codec interface {
	Encode(kind, owner string, payload []byte) ([]byte, error)
	Decode(kind, owner string, payload []byte) ([]byte, error)
}

// Kind declares a kind of task with payload P once, for the side that schedules and for the side that runs it.
type Kind[P any] struct {
	info KindInfo
}

// KindOption sets what NewKind leaves at its default.
type KindOption func(*KindInfo)

// Queue puts the kind's tasks on a queue of their own: a topic and a consumer group.
func Queue(name string) KindOption { return func(k *KindInfo) { k.Queue = name } }

// Was says which names the kind had before it was renamed. What waits under them goes on, and keeps the name that it has: the kind's
// handler runs tasks of all names, which it sees as Task.Kind; a key that one of them holds is taken for the kind; and Recur finds a
// recurrence of an old name. No other kind of a process may have one of the names. Calls that take the name of a kind find what has that
// very name: KindInfo.Names has all of them. docs/CHANGING.md says in which order to deploy.
func Was(names ...string) KindOption {
	return func(k *KindInfo) { k.Was = append(slices.Clone(k.Was), names...) }
}

// MaxAttempts bounds the failures of one task before it is dead; 1 to 1000.
func MaxAttempts(n int) KindOption { return func(k *KindInfo) { k.MaxAttempts = n } }

// Retry times the tries after a failure.
func Retry(b Backoff) KindOption { return func(k *KindInfo) { k.Backoff = b } }

// CatchUpWindow says what becomes of tasks that an outage made late: a task whose first try would begin later than its due
// time plus d is not run, but ends as cancelled, with a last error that begins with "skipped". Without it, or with 0, all
// are run, however late. A task whose handler was called once, or snoozed it, is never skipped; nor is one moved by a
// reschedule, which sets another due time. A worker that does not know the kind, or that stopped before the handler had
// answered, has not tried the task.
func CatchUpWindow(d time.Duration) KindOption { return func(k *KindInfo) { k.CatchUpWindow = d } }

// Timeout bounds one call of the kind's handler, middleware included, in place of the worker's own bound
// (worker.handler_timeout, Config.HandlerTimeout); 10 ms to 1 h, or 0 for that bound. A call of a batch handler has it once
// for all its tasks. The worker's bound is the highest: connections and the drain rest on it, and a worker refuses a kind
// that is to have more.
func Timeout(d time.Duration) KindOption { return func(k *KindInfo) { k.Timeout = d } }

// Batch has a worker commit once a transaction has run n tasks of the kind; 1 to 1000, or 0 for the worker's bound (worker.batch).
// Until the commit, each row that a handler of the transaction has changed is locked: tasks in other transactions that change
// the same row wait. So a kind whose handlers share a row, such as a city's or a shop's, wants a small n. A batch handler gets at
// most n tasks in one call.
func Batch(n int) KindOption { return func(k *KindInfo) { k.Batch = n } }

// StrictPayload refuses to decode a payload with a field that the payload's type lacks: the attempt fails, as with any
// payload that can't be decoded. Without it such fields are ignored. While a new field is rolled out, workers of the version
// before refuse its tasks, which wait for their retries: docs/CHANGING.md says in which order to deploy. A type with an
// UnmarshalJSON of its own decides for itself.
func StrictPayload() KindOption { return func(k *KindInfo) { k.StrictPayload = true } }

// InOrder has the kind's tasks take effect in order: of tasks with one order key, in whatever kinds and queues, none takes effect before
// an earlier one has ended. Earlier is the task with the earlier due time; of two that are due in one millisecond, the one with the lower
// id. The key is that of OrderKey, or else the owner and the subject.
//
// What counts is what was committed when the task's row was locked: a task that is scheduled, or moved, after that is later. A retry
// keeps its due time, so a task that fails holds up the later ones of its key until it is done, cancelled or dead. An operator's retry of
// a dead task has a new due time. While a task waits, its LastError names the task that it waits for.
//
// The kind's tasks can't be those of a recurrence. Tasks that were scheduled while the kind was not InOrder stay without order.
func InOrder() KindOption { return func(k *KindInfo) { k.InOrder = true } }

// NewKind declares a kind. It panics on a name, queue, or number outside the limits: kinds are declared at start, by
// the programmer.
func NewKind[P any](name string, opts ...KindOption) Kind[P] {
	info := KindInfo{Name: name, Queue: "default", MaxAttempts: 25}
	for _, o := range opts {
		o(&info)
	}
	info.Backoff.Max = cmp.Or(info.Backoff.Max, max(DefaultBackoff.Max, info.Backoff.Min))
	info.Backoff.Min = cmp.Or(info.Backoff.Min, min(DefaultBackoff.Min, info.Backoff.Max))
	if err := info.Check(); err != nil {
		panic(fmt.Sprintf("task.NewKind(%q): %v", name, err))
	}
	return Kind[P]{info: info}
}

// Check returns a *FieldError for a name, a queue or a number outside the limits.
func (k KindInfo) Check() error {
	names := k.Names()
	for i, name := range names {
		if err := checkKind(name); err != nil {
			return err
		}
		if slices.Contains(names[:i], name) {
			return &FieldError{"was", fmt.Sprintf("must not have %q twice, nor as the kind's name", name)}
		}
	}
	if err := checkQueue(k.Queue); err != nil {
		return err
	}
	if k.MaxAttempts < 1 || k.MaxAttempts > maxAttempts {
		return &FieldError{"max_attempts", fmt.Sprintf("must be 1 to %d", maxAttempts)}
	}
	if k.Backoff.Min < 0 || k.Backoff.Max < k.Backoff.Min {
		return &FieldError{"retry", "must not be negative, nor its Max below its Min"}
	}
	if k.CatchUpWindow < 0 || k.CatchUpWindow > MaxAhead {
		return &FieldError{"catch_up_window", "must be 0 (none) to 10 years"}
	}
	if k.Batch < 0 || k.Batch > MaxPerCall {
		return &FieldError{"batch", fmt.Sprintf("must be 1 to %d, or 0 for the worker's", MaxPerCall)}
	}
	if k.Timeout != 0 && (k.Timeout < MinTimeout || k.Timeout > MaxTimeout) {
		return &FieldError{"timeout", "must be 10 ms to 1 h, or 0 for the worker's"}
	}
	if k.Priority.String() == "" {
		return &FieldError{"priority", "must be High, Normal or Low"}
	}
	return nil
}

// Names returns the kind's name and, after it, those that it had before.
func (k KindInfo) Names() []string { return append([]string{k.Name}, k.Was...) }

// Info returns what the kind says about its tasks.
func (k Kind[P]) Info() KindInfo { return k.info }

// Name returns the kind's name.
func (k Kind[P]) Name() string { return k.info.Name }

// New prepares a task of this kind; nothing happens until it is scheduled in a transaction. Its id is made here: to
// schedule the same Spec twice is to schedule one task. Errors of the input come out when it is scheduled.
func (k Kind[P]) New(owner string, payload P, when When, opts ...Option) Spec {
	s := Spec{row: Task{ID: NewID(), Owner: owner}, kind: k.info, when: when}
	for _, o := range opts {
		o(&s)
	}
	return s.WithPayload(payload)
}

// Payload decodes the payload of a task of this kind. An error often means that the task was scheduled by a version of the
// service with another payload; docs/CHANGING.md says how to change one while tasks wait.
func (k Kind[P]) Payload(t Task) (P, error) {
	var p P
	decode := json.Unmarshal
	if k.info.StrictPayload {
		decode = decodeStrictly
	}
	text, err := k.info.Payload(t)
	if err != nil {
		return p, fmt.Errorf("decode payload of %s %s: %w", t.Kind, t.ID, err)
	}
	if err := decode(text, &p); err != nil {
		if k.info.Codec != nil {
			err = errUnfit // the error may have parts of a payload that nobody is to read
		}
		return p, fmt.Errorf("decode payload of %s %s, scheduled by another version? see docs/CHANGING.md: %w", t.Kind, t.ID, err)
	}
	return p, nil
}

// Payload returns the payload of a task of this kind as JSON, as the kind's codec decodes it. The counts of a group stand in the row beside
// what the codec has made of the follower's payload.
func (k KindInfo) Payload(t Task) ([]byte, error) {
	if k.Codec == nil {
		return t.Payload, nil
	}
	text, err := k.Codec.Decode(t.Kind, t.Owner, t.Payload)
	if err != nil {
		return nil, err
	}
	var row, opened map[string]json.RawMessage
	if json.Unmarshal(t.Payload, &row) != nil || row["group"] == nil {
		return text, nil //nolint:nilerr // of another form, without a group
	}
	if err := json.Unmarshal(text, &opened); err != nil {
		return nil, fmt.Errorf("a group's follower must have a JSON object as its payload: %w", err)
	}
	if opened == nil { // of null
		opened = map[string]json.RawMessage{}
	}
	opened["group"] = row["group"]
	return json.Marshal(opened)
}

var errUnfit = errors.New("it does not fit the kind's type")

// decodeStrictly is json.Unmarshal, but refuses fields that the value's type lacks.
func decodeStrictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	switch err := d.Decode(into); {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF // there is no JSON at all
	case err != nil:
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("json: there is more behind the value")
	}
	return nil
}
