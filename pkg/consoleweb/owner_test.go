package consoleweb

import (
	"fmt"
	"testing"

	"github.com/duetime/duetime/pkg/console"
)

// Kinds have lanes in the order of their names, and points of one lane that are near each other have rows. However many kinds and
// tasks there are, the line has a bounded height.
func TestOwnersLanes(t *testing.T) {
	t.Parallel()
	x := func(ms int64) float64 { return float64(ms) }
	draw := func(tasks ...console.Task) *ownerView {
		o := &ownerView{Tasks: tasks}
		o.lanes(&visit{}, x)
		return o
	}
	at := func(kind string, ms int64) console.Task { return console.Task{Kind: kind, DueAtMs: ms} }
	o := draw(at("b", 1), at("a", 2), at("b", 3), at("b", 50))
	diff(t, "lanes", []lineLane{{40, "a"}, {80, "b"}}, o.Lanes)
	var points []string
	for _, p := range o.Points {
		points = append(points, fmt.Sprint(p.Task.Kind, " ", p.X, " ", p.Y))
	}
	diff(t, "points", []string{"a 2.00% 51", "b 1.00% 91", "b 3.00% 109", "b 50.00% 91"}, points)
	diff(t, "height", 145, o.Height)

	var crowd []console.Task
	for i := range maxLineRows - 1 {
		crowd = append(crowd, at("a", int64(i%2)))
	}
	for i, p := range draw(append(crowd, at("b", 1))...).Points[:maxLineRows-1] { // the other lane needs one row
		diff(t, "where a point of a crowd stands", 51+i*lineRow, p.Y)
	}

	for _, kinds := range []int{1, 2, 5, maxLineRows, maxLineRows + 1, lineTasks} {
		var tasks []console.Task
		for i := range lineTasks { // all at one time
			tasks = append(tasks, at(fmt.Sprintf("kind-%03d", i%kinds), 50))
		}
		o := draw(tasks...)
		if most := draw().Height + maxLineRows*(lineName+lineRow); o.Height > most || len(o.Points) != lineTasks {
			t.Errorf("%d kinds: %d points on %d px, want at most %d px", kinds, len(o.Points), o.Height, most)
		}
		last, want := o.Lanes[len(o.Lanes)-1].Kind, fmt.Sprintf("kind-%03d", kinds-1)
		if kinds > maxLineRows {
			want = "" // the others
		}
		diff(t, fmt.Sprint("the last lane of ", kinds, " kinds"), want, last)
		for _, p := range o.Points {
			if p.Y >= o.Height-lineFoot {
				t.Fatalf("%d kinds: a point at %d of %d px", kinds, p.Y, o.Height)
			}
		}
	}
}
