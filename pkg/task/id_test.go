package task_test

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/duetime/duetime/pkg/task"
)

var (
	_ driver.Valuer = task.ID{}
	_ sql.Scanner   = (*task.ID)(nil)
)

func TestScanRefusesWhatIsNoID(t *testing.T) {
	t.Parallel()
	for _, src := range []any{"", "x", []byte("short"), make([]byte, 17), 7, 1.5, true, "00000000000000000000000000000000"} {
		id := task.NewID()
		was := id
		var field *task.FieldError
		if err := id.Scan(src); err == nil || !errors.As(err, &field) || id != was {
			t.Errorf("%v: got %v and %v, want a FieldError and the id as it was", src, err, id)
		}
	}
}

// Of tasks in order that are due in one millisecond, the one that was made first comes first.
func TestNewIDsAscend(t *testing.T) {
	t.Parallel()
	for last, n := task.NewID(), 0; n < 10_000; n++ {
		next := task.NewID()
		if next.Compare(last) <= 0 {
			t.Fatalf("%v follows %v", next, last)
		}
		last = next
	}
}

func TestIDTextAndBytes(t *testing.T) {
	t.Parallel()
	want := task.NewID()
	value, err := want.Value()
	if err != nil || value != want.String() {
		t.Errorf("value is %v, %v, want %v", value, err, want)
	}
	if value, err := (task.ID{}).Value(); err != nil || value != nil {
		t.Errorf("value of the zero id is %v, %v, want NULL", value, err)
	}
	for _, src := range []any{want.String(), []byte(want.String()), want[:], string(want[:])} {
		var got task.ID
		if err := got.Scan(src); err != nil || got != want {
			t.Errorf("%v became %v, %v, want %v", src, got, err, want)
		}
	}
}
