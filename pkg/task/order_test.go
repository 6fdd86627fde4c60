package task_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
)

// A kind says whether its tasks have an order key, and a spec may say which.
func TestOrderKey(t *testing.T) {
	t.Parallel()
	march := task.NewKind[int]("march", task.InOrder())
	key := func(opts ...task.Option) string {
		t.Helper()
		row, err := march.New("ann", 1, task.In(0), opts...).Resolve(now)
		if err != nil {
			t.Error(err)
		}
		return row.OrderKey
	}
	if got := pending(t, 0).OrderKey; got != "" {
		t.Errorf("a plain kind's: %q", got)
	}
	cat := key(task.Subject("cat"))
	if cat == key(task.Subject("dog")) || cat == key(task.OrderKey("cat")) || cat != key(task.Subject("cat")) || key() == "" {
		t.Errorf("the subject's key is %q", cat)
	}
	longest := strings.Repeat("k", task.MaxKey)
	if got := key(task.OrderKey(longest)); got != "k"+longest {
		t.Errorf("the longest key is stored as %q", got)
	}
	for name, spec := range map[string]task.Spec{
		"empty":                   march.New("ann", 1, task.In(0), task.OrderKey("")),
		"too long":                march.New("ann", 1, task.In(0), task.OrderKey(longest+"k")),
		"of a kind without order": kind.New("ann", nil, task.In(0), task.OrderKey("k")),
	} {
		_, err := spec.Resolve(now)
		if field := new(task.FieldError); !errors.As(err, &field) || field.Field != "order_key" {
			t.Errorf("%s: %v, want a FieldError of order_key", name, err)
		}
	}
	_, err := march.Recurring("ann", 1).Recurrence("r", recur.Every(time.Hour), recur.Policy{}, now)
	if field := new(task.FieldError); !errors.As(err, &field) || field.Field != "kind" {
		t.Errorf("a recurrence: %v, want a FieldError of kind", err)
	}
}
