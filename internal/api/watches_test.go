package api

import (
	"testing"

	"github.com/duetime/duetime/pkg/task"
)

// A stream that began between a look and its end never goes back to the version that the look found; the row's end it gets.
func TestWatchNeverGoesBack(t *testing.T) {
	t.Parallel()
	id := task.NewID()
	at := func(version int64) task.Task { return task.Task{ID: id, Version: version} }
	w := newWatches(nil)
	opened, err := w.add(at(6), "shop")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		read []task.Task
		want int64 // the version that the stream gets; 0: that the row was purged; -1: nothing
	}{
		{[]task.Task{at(5)}, -1}, {[]task.Task{at(6)}, -1}, {[]task.Task{at(7)}, 7}, {[]task.Task{at(6)}, -1}, {nil, 0},
	} {
		w.hand([]task.ID{id}, c.read)
		got := int64(-1)
		select {
		case row := <-opened.changes:
			got = row.Version
		default:
		}
		if got != c.want {
			t.Errorf("a look that found %v gave version %d, want %d", c.read, got, c.want)
		}
	}
}
