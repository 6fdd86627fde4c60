package limit_test

import (
	"container/heap"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/limit"
	"github.com/duetime/duetime/pkg/task"
)

// waiter is a task that comes for a slot.
type waiter struct {
	at    time.Time // when it comes
	owner string
	n     int // of the owner's tasks
	visit limit.Visit
	waits bool // for a slot that it has
	slot  time.Time
}

type waiters []waiter

func (w waiters) Len() int           { return len(w) }
func (w waiters) Less(i, j int) bool { return w[i].at.Before(w[j].at) }
func (w waiters) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *waiters) Push(x any)        { *w = append(*w, x.(waiter)) }
func (w *waiters) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}

// run lets the tasks come until none is left. It returns when those of each owner ran, in the order of their numbers, and how often tasks
// were put off.
func run(slots *limit.OwnerSlots, all waiters) (ran map[string][]time.Time, putOff int) {
	return runBeside(slots, all, func(at time.Time) time.Time { return at })
}

// runBeside is run with a worker that meets who comes at a moment no earlier than meets says.
func runBeside(slots *limit.OwnerSlots, all waiters, meets func(at time.Time) time.Time) (ran map[string][]time.Time, putOff int) {
	ran = map[string][]time.Time{}
	heap.Init(&all)
	for all.Len() > 0 {
		w := heap.Pop(&all).(waiter)
		if at := meets(w.at); at.After(w.at) {
			w.at = at
			heap.Push(&all, w)
			continue
		}
		if w.waits = w.waits && slots.Holds(w.slot, w.at); !w.waits {
			slot, far := slots.Take(w.owner, w.visit, w.at)
			w.slot, w.visit = slot, min(w.visit+1, limit.Later)
			if far {
				putOff++
			}
			if w.waits = !far; slot.After(w.at) {
				w.at = slot
				heap.Push(&all, w)
				continue
			}
		}
		for len(ran[w.owner]) <= w.n {
			ran[w.owner] = append(ran[w.owner], time.Time{})
		}
		ran[w.owner][w.n] = w.at
	}
	return ran, putOff
}

func crowd(owner string, n int, at time.Time) (all waiters) {
	for i := range n {
		all = append(all, waiter{at: at.Add(time.Duration(i)), owner: owner, n: i})
	}
	return all
}

// A crowd runs at its owner's rate, in order, each of its tasks put off once at most. Another owner's task runs at once.
func TestOwnerSlotsOfACrowd(t *testing.T) {
	t.Parallel()
	for _, rate := range []task.Rate{{Calls: 5, Per: time.Second}, {Calls: 300, Per: time.Second}, {Calls: 20, Per: time.Minute}, {Calls: 2, Per: time.Hour}} {
		n := min(rate.In(10*time.Hour), 400)
		more := crowd("ann", n, t0.Add(rate.Span(n/2))) // while the first ones stand in line
		for i := range more {
			more[i].n += n
		}
		ran, putOff := run(limit.NewOwnerSlots(rate), slices.Concat(crowd("ann", n, t0), more, waiters{{at: t0.Add(time.Second), owner: "bob"}}))
		ann := ran["ann"]
		if len(ann) != 2*n || !slices.IsSortedFunc(ann, time.Time.Compare) {
			t.Errorf("%v: %d of %d ran, in order: %v", rate, len(ann), 2*n, slices.IsSortedFunc(ann, time.Time.Compare))
		}
		if took, want := ann[2*n-1].Sub(ann[0]), rate.Span(2*n-1); took < want-200*time.Millisecond || took > want+time.Second {
			t.Errorf("%v: they took %v, want %v", rate, took, want)
		}
		if putOff > 2*n-1 {
			t.Errorf("%v: %d were put off", rate, putOff)
		}
		if late := ran["bob"][0].Sub(t0); late != time.Second {
			t.Errorf("%v: another owner's task waited until %v", rate, late)
		}
	}
}

// Calls of an owner are within 5 % of the rate over any ten seconds, while tasks come at random times, fail and come again.
func TestOwnerSlotsKeepTheRate(t *testing.T) {
	t.Parallel()
	rate := task.Rate{Calls: 20, Per: time.Second}
	all := crowd("ann", 900, t0)
	for i := range all {
		all[i].at = t0.Add(time.Duration(i*7919%30_000) * time.Millisecond)
		all[i].visit = limit.Visit(i % 3)
	}
	ran, _ := run(limit.NewOwnerSlots(rate), all)
	at := ran["ann"]
	slices.SortFunc(at, time.Time.Compare)
	fewest, most := busiest(at, t0.Add(2*time.Second), t0.Add(40*time.Second))
	if want := rate.In(10 * time.Second); fewest < want*95/100 || most > want*105/100 {
		t.Errorf("%d to %d calls in ten seconds, want %d", fewest, most, want)
	}
}

// Nothing comes to its worker for five seconds. Then the crowd goes on at its rate; none of it waits until all others have run.
func TestOwnerSlotsAfterAStall(t *testing.T) {
	t.Parallel()
	for _, rate := range []task.Rate{{Calls: 5, Per: time.Second}, {Calls: 30, Per: time.Minute}} {
		const n = 200
		begins, ends := t0.Add(20*time.Second), t0.Add(25*time.Second)
		ran, putOff := runBeside(limit.NewOwnerSlots(rate), crowd("ann", n, t0), func(at time.Time) time.Time {
			if at.After(begins) && at.Before(ends) {
				return ends
			}
			return at
		})
		wantAll(t, rate, ran["ann"], n, 5*time.Second)
		if putOff > 3*n {
			t.Errorf("%v: %d were put off, of %d tasks", rate, putOff, n)
		}
		for i, at := range ran["ann"] {
			if late := at.Sub(t0) - rate.Span(i); late > 30*time.Second {
				t.Fatalf("%v: task %d ran %v after its place in line", rate, i, late)
			}
		}
	}
}

// A crowd is moved to now, so that all of it comes again, and none at its slots. It runs at the rate.
func TestOwnerSlotsOfAMovedCrowd(t *testing.T) {
	t.Parallel()
	rate := task.Rate{Calls: 5, Per: time.Second}
	slots := limit.NewOwnerSlots(rate)
	const n = 500
	for range n {
		slots.Take("ann", limit.First, t0)
	}
	moved := crowd("ann", n, t0.Add(time.Second))
	for i := range moved {
		moved[i].visit = limit.Second
	}
	ran, _ := run(slots, moved)
	wantAll(t, rate, ran["ann"], n, 5*time.Second)
}

// Each tenth task of a crowd fails, and comes again after a second: it doesn't wait for all others.
func TestOwnerSlotsOfTasksThatFail(t *testing.T) {
	t.Parallel()
	for _, rate := range []task.Rate{{Calls: 5, Per: time.Second}, {Calls: 20, Per: time.Minute}} {
		const n, failed = 200, 20
		all := crowd("ann", n, t0)
		for i := range failed {
			all = append(all, waiter{at: t0.Add(rate.Span(10*i) + time.Second), owner: "ann", n: n + i, visit: limit.Second})
		}
		ran, putOff := run(limit.NewOwnerSlots(rate), all)
		wantAll(t, rate, ran["ann"], n+failed, time.Second)
		for i := range failed {
			if waited := ran["ann"][n+i].Sub(t0) - rate.Span(10*i); waited > time.Second+rate.Span(25) {
				t.Errorf("%v: retry %d waited %v", rate, i, waited)
			}
		}
		if putOff > 6*n {
			t.Errorf("%v: %d were put off, of %d tasks", rate, putOff, n)
		}
	}
}

// wantAll checks that all ran, and at the rate but for the time that may be lost.
func wantAll(t *testing.T, rate task.Rate, ran []time.Time, n int, lost time.Duration) {
	t.Helper()
	if len(ran) != n || slices.ContainsFunc(ran, time.Time.IsZero) {
		t.Fatalf("%v: not all of %d ran: %d", rate, n, len(ran))
	}
	sorted := slices.SortedFunc(slices.Values(ran), time.Time.Compare)
	if took, want := sorted[n-1].Sub(t0), rate.Span(n-1); took > want+lost+2*time.Second+2*rate.Span(1) {
		t.Errorf("%v: %d tasks took %v, want %v", rate, n, took, want)
	}
	if _, most := busiest(sorted, t0, sorted[n-1]); most > max(2, rate.In(10*time.Second)*105/100+1) {
		t.Errorf("%v: %d calls in ten seconds", rate, most)
	}
}

// Nobody stands in line behind tasks that come no more.
func TestOwnerSlotsOfACancelledCrowd(t *testing.T) {
	t.Parallel()
	slots := limit.NewOwnerSlots(task.Rate{Calls: 5, Per: time.Second})
	for range 10_000 {
		slots.Take("ann", limit.First, t0)
	}
	if _, far := slots.Take("ann", limit.First, t0.Add(time.Second)); !far {
		t.Fatal("a task does not stand in line behind the crowd")
	}
	later := t0.Add(4 * time.Second)
	if slot, far := slots.Take("ann", limit.First, later); far || slot.After(later) {
		t.Errorf("after the crowd was cancelled a task is put off to %v", slot.Sub(later))
	}
}

func TestRefundedOwnerSlots(t *testing.T) {
	t.Parallel()
	slots := limit.NewOwnerSlots(task.Rate{Calls: 1, Per: time.Minute})
	slots.Take("ann", limit.First, t0)
	slots.Refund("ann")
	if slot, far := slots.Take("ann", limit.First, t0); far || slot.After(t0) {
		t.Errorf("a slot that was given back is not taken: %v", slot.Sub(t0))
	}
	slots.Refund("bob")
}

// The database's clock is set back by an hour: no slot is an hour away.
func TestOwnerSlotsAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	slots := limit.NewOwnerSlots(task.Rate{Calls: 5, Per: time.Second})
	slots.Take("ann", limit.First, t0)
	back := t0.Add(-time.Hour)
	if slot, far := slots.Take("ann", limit.First, back); far || slot.After(back) {
		t.Errorf("the slot is after %v", slot.Sub(back))
	}
}

// Who stands in line for longer than a day comes again within one: a rate that is raised meanwhile holds for it then.
func TestFarthestOwnerSlot(t *testing.T) {
	t.Parallel()
	slots := limit.NewOwnerSlots(task.Rate{Calls: 1, Per: time.Hour})
	for i := range 100 {
		if slot, _ := slots.Take("ann", limit.First, t0); slot.Sub(t0) > 24*time.Hour || i > 24 && slot.Sub(t0) < 12*time.Hour {
			t.Fatalf("the slot of task %d is after %v", i, slot.Sub(t0))
		}
	}
}

// Owners whose slots are over are forgotten, others are not.
func TestOwnerSlotsOfManyOwners(t *testing.T) {
	t.Parallel()
	slots := limit.NewOwnerSlots(task.Rate{Calls: 1, Per: time.Minute})
	slots.Take("ann", limit.First, t0)
	for i := range 20_000 {
		at := t0.Add(time.Duration(i) * time.Millisecond)
		slots.Take(fmt.Sprint("o", i), limit.First, at)
		if i == 10_000 {
			if _, far := slots.Take("ann", limit.First, at); !far {
				t.Fatal("an owner was forgotten before the next slot")
			}
		}
	}
	if n := slots.Owners(); n < 20_000 {
		t.Errorf("%d owners are known, whose slots are not over", n)
	}
	slots.Take("bob", limit.First, t0.Add(time.Hour))
	for i := range 40_000 {
		slots.Take(fmt.Sprint("p", i), limit.First, t0.Add(time.Hour+time.Duration(i)*10*time.Millisecond))
	}
	if n := slots.Owners(); n > 30_000 {
		t.Errorf("%d owners are known, the slots of most are over", n)
	}
}
