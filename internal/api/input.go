package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/duetime/duetime/pkg/console"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
	"github.com/duetime/duetime/pkg/task"
)

// kindOf declares the kind of a request's task. What the kind's worker knows of it, such as its retries, is not asked here.
func (s *service) kindOf(ctx context.Context, name, queue string, maxAttempts int32, more ...task.KindOption) (task.Kind[any], error) {
	info := task.KindInfo{Name: name, Queue: cmp.Or(queue, defaultQueue), MaxAttempts: cmp.Or(int(maxAttempts), 1)}
	if err := info.Check(); err != nil { // NewKind panics
		return task.Kind[any]{}, err
	}
	if err := s.checkQueue(ctx, "queue", info.Queue); err != nil {
		return task.Kind[any]{}, err
	}
	options := append([]task.KindOption{task.Queue(info.Queue)}, more...)
	if maxAttempts != 0 {
		options = append(options, task.MaxAttempts(info.MaxAttempts))
	}
	return task.NewKind[any](name, options...), nil
}

// defaultQueue is that of a kind that names none.
const defaultQueue = "default"

func (s *service) checkQueue(ctx context.Context, field, queue string) error {
	if _, known := s.queues.Load(queue); known {
		return nil
	}
	err := s.console.CheckQueue(ctx, queue)
	if err == nil {
		s.queues.Store(queue, nil)
	}
	if wrong, is := errors.AsType[*task.FieldError](err); is {
		return &task.FieldError{Field: field, Problem: wrong.Problem}
	}
	return err
}

// spec makes the spec of a new task, within the caller's scope. The spec's limits are checked too, so that an error names the
// task of many.
func (s *service) spec(ctx context.Context, who caller, t *v1.NewTask) (task.Spec, error) {
	var inOrder []task.KindOption
	if t.GetOrderKey() != "" {
		inOrder = append(inOrder, task.InOrder())
	}
	kind, err := s.kindOf(ctx, t.GetKind(), t.GetQueue(), t.GetMaxAttempts(), inOrder...)
	if err != nil {
		return task.Spec{}, err
	}
	if err := who.checkNew(t); err != nil {
		return task.Spec{}, err
	}
	payload, err := payloadIn(t.GetPayload(), t.GetPayloadJson())
	if err != nil {
		return task.Spec{}, err
	}
	when, err := dueOf(t.GetDueAt(), t.GetDueIn())
	if err != nil {
		return task.Spec{}, err
	}
	options, err := optionsOf(t)
	if err != nil {
		return task.Spec{}, err
	}
	spec := kind.New(t.GetOwner(), payload, when, options...)
	_, err = spec.Resolve(time.Now())
	return spec, asSent(t, err)
}

// asSent names the field by which the request has given a payload or a key.
func asSent(r interface{ GetPayloadJson() string }, err error) error {
	wrong, is := errors.AsType[*task.FieldError](err)
	if !is {
		return err
	}
	keyed, may := r.(interface{ GetIdempotencyKey() string })
	switch {
	case wrong.Field == "payload" && r.GetPayloadJson() != "":
		return &task.FieldError{Field: "payload_json", Problem: wrong.Problem}
	case wrong.Field == "key" && may && keyed.GetIdempotencyKey() != "":
		return &task.FieldError{Field: "idempotency_key", Problem: wrong.Problem}
	}
	return err
}

func optionsOf(t *v1.NewTask) ([]task.Option, error) {
	options := []task.Option{task.Subject(t.GetSubject())}
	if t.GetTaskId() != "" {
		id, err := task.ParseID(t.GetTaskId())
		if err != nil {
			return nil, err
		}
		options = append(options, task.WithID(id))
	}
	if t.GetOrderKey() != "" {
		options = append(options, task.OrderKey(t.GetOrderKey()))
	}
	for _, name := range slices.Sorted(maps.Keys(t.GetLabels())) {
		options = append(options, task.Label(name, t.GetLabels()[name]))
	}
	if t.GetMaxWait() != nil {
		bound, err := durationOf("max_wait", t.GetMaxWait())
		if err != nil {
			return nil, err
		}
		options = append(options, task.MaxWait(bound))
	}
	key, err := keyOf(t)
	if err != nil || key == nil {
		return options, err
	}
	return append(options, key), nil
}

// keyOf returns the option of the task's key; nil for a task without one.
func keyOf(t *v1.NewTask) (task.Option, error) {
	mode := t.GetKeyMode()
	switch {
	case t.GetIdempotencyKey() != "" && (t.GetKey() != "" || mode != v1.KeyMode_KEY_MODE_UNSPECIFIED):
		return nil, &task.FieldError{Field: "key", Problem: "must not be set beside idempotency_key, nor key_mode"}
	case t.GetKey() == "" && mode != v1.KeyMode_KEY_MODE_UNSPECIFIED:
		return nil, &task.FieldError{Field: "key", Problem: "must be set with key_mode"}
	case t.GetWindow() != nil && mode != v1.KeyMode_KEY_MODE_WINDOW:
		return nil, &task.FieldError{Field: "window", Problem: "must not be set without the key_mode KEY_MODE_WINDOW"}
	case t.GetIdempotencyKey() != "":
		return task.Once(t.GetIdempotencyKey()), nil
	case t.GetKey() == "":
		return nil, nil //nolint:nilnil // no key is no mistake
	}
	switch mode {
	case v1.KeyMode_KEY_MODE_UNSPECIFIED, v1.KeyMode_KEY_MODE_KEEP:
		return task.Key(t.GetKey()), nil
	case v1.KeyMode_KEY_MODE_MOVE:
		return task.KeyMove(t.GetKey()), nil
	case v1.KeyMode_KEY_MODE_REPLACE:
		return task.KeyReplace(t.GetKey()), nil
	case v1.KeyMode_KEY_MODE_WINDOW:
		window, err := durationOf("window", t.GetWindow())
		return task.Window(t.GetKey(), window), err
	}
	return nil, unknownValue("key_mode", mode)
}

// dueOf reads a due time, of which one form is set.
func dueOf(at *timestamppb.Timestamp, in *durationpb.Duration) (task.When, error) {
	switch {
	case at != nil:
		moment, err := momentOf("due_at", at)
		return task.At(moment), err
	case in != nil:
		after, err := durationOf("due_in", in)
		return task.In(after), err
	}
	return task.When{}, &task.FieldError{Field: "due", Problem: "must be set: due_at or due_in"}
}

// momentOf reads a moment; absent is the zero time. The zero time itself is refused with all moments before 1970: as a bound it
// would be none, and all tasks would be chosen.
func momentOf(field string, at *timestamppb.Timestamp) (time.Time, error) {
	if at == nil {
		return time.Time{}, nil
	}
	if at.CheckValid() != nil || at.GetSeconds() < 0 {
		return time.Time{}, &task.FieldError{Field: field, Problem: "must be a moment of the years 1970 to 9999"}
	}
	return at.AsTime(), nil
}

// durationOf reads a duration; absent is 0. One that Go can't hold is beyond all limits.
func durationOf(field string, d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	length := d.AsDuration()
	if d.CheckValid() != nil || length == math.MaxInt64 || length == math.MinInt64 {
		return 0, &task.FieldError{Field: field, Problem: "must be a duration of less than 292 years"}
	}
	return length, nil
}

// unknownValue refuses a number that none of an enum's names has, and the one that stands for an absent field.
func unknownValue(field string, value protoreflect.Enum) error {
	problem := namesOf(value.Descriptor())
	if n := value.Number(); n != 0 {
		problem += fmt.Sprintf(", and is %d", n)
	}
	return &task.FieldError{Field: field, Problem: problem}
}

// versionOf reads the version that the caller has seen; 0 is any.
func versionOf(n int64) (int64, error) {
	if n < 0 {
		return 0, &task.FieldError{Field: "version", Problem: "must not be below 0"}
	}
	return n, nil
}

// pageOf reads the size and the place of a page.
func pageOf(limit int32, cursor string) (int, string, error) {
	n := cmp.Or(int(limit), defaultPage)
	if n < 1 || n > maxPage {
		return 0, "", &task.FieldError{Field: "limit", Problem: fmt.Sprintf("must be 1 to %d", maxPage)}
	}
	if len(cursor) > maxCursor {
		return 0, "", errCursor
	}
	return n, cursor, nil
}

// listOf reads the filter of a list.
func listOf(r *v1.ListRequest) (console.Filter, error) {
	f := console.Filter{
		Owner: r.GetOwner(), Kind: r.GetKind(), Queue: r.GetQueue(), Subject: r.GetSubject(), Labels: r.GetLabels(),
		Exclude: exclusionOf(r.GetExclude()),
	}
	var err error
	if f.State, err = stateIn(r.GetState()); err != nil {
		return f, err
	}
	if f.DueAfter, err = momentOf("due_after", r.GetDueAfter()); err != nil {
		return f, err
	}
	if f.DueBefore, err = momentOf("due_before", r.GetDueBefore()); err != nil {
		return f, err
	}
	f.Limit, f.After, err = pageOf(r.GetLimit(), r.GetCursor())
	return f, err
}

func exclusionOf(e *v1.Exclusion) task.Exclusion {
	return task.Exclusion{Kinds: e.GetKinds(), Labels: e.GetLabels()}
}

// stateIn reads a state; nil is any.
func stateIn(s v1.State) (*task.State, error) {
	for state := task.Pending; state <= task.Dead; state++ {
		if stateOf(state) == s {
			return &state, nil
		}
	}
	if s != v1.State_STATE_UNSPECIFIED {
		return nil, unknownValue("state", s)
	}
	return nil, nil //nolint:nilnil // any state is no mistake
}
