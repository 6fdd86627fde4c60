package bench_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/duetime/duetime/bench/protocol"
	"github.com/duetime/duetime/bench/report"
)

// sharingPartitions are fewer than the workers that share them, by two.
const sharingPartitions = 2

// sharing measures how a burst spreads over more workers than partitions: two of them get no hints, and look for late tasks in
// MySQL.
func sharing(w *world, f *report.Figures) {
	w.work(true)
	drivers := []*driver{w.worker}
	for range sharingPartitions + 1 {
		d := w.start("work")
		d.must(w, protocol.Request{Op: "work", Effect: true})
		drivers = append(drivers, d)
	}
	before := doneBy(w, drivers)
	n := w.bench.count(200_000)
	first := w.take(n)
	due := time.Now().Add(30*time.Second + time.Duration(2*float64(n)/w.rate*float64(time.Second))).Truncate(time.Second) // the group joins meanwhile
	w.load(first, n, due, 0, 1)
	if !time.Now().Before(due) {
		w.Fatal("making the burst took too long")
	}
	var shares []int64
	w.await(time.Until(due)+restLimit, "the burst to be done", func() bool {
		var all int64
		shares = doneBy(w, drivers)
		for i := range shares {
			shares[i] -= before[i]
			all += shares[i]
		}
		return all >= n
	})
	slices.Sort(shares)
	slices.Reverse(shares)
	for i, share := range shares {
		f.Text(fmt.Sprintf("worker %d", i+1), fmt.Sprintf("%d, %.0f %%", share, 100*float64(share)/float64(n)))
	}
}

func doneBy(w *world, drivers []*driver) []int64 {
	w.Helper()
	var done []int64
	for _, d := range drivers {
		done = append(done, d.must(w, protocol.Request{Op: "seen"}).Done)
	}
	return done
}
