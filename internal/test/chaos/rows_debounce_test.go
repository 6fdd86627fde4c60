package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

const (
	debouncers    = 32 // callers, four of each owner
	debounceEvery = debouncers * time.Second / 200

	documents     = 4 // that change all the time
	documentEvery = 200 * time.Millisecond
	documentWait  = 10 * time.Second
)

// debounced are tasks whose handlers take a while: one has its effect in the transaction, the other outside.
var debounced = []task.Kind[struct{}]{task.NewKind[struct{}]("chaos.debounced"), task.NewKind[struct{}]("chaos.debounced_outside")}

func debounceRow() entry {
	return entry{
		n: 85, fault: "200 debounces a second by key against their own runs, inside and outside handlers, and documents that change all the time, " +
			"each worker killed meanwhile", alone: true,
		setup: setup{worker: "./internal/test/chaos/poison", rate: 100, late: time.Second}, run: debouncesMeetRuns,
	}
}

// debouncesMeetRuns replaces tasks by key, with a due time so near that many calls wait for a run. No batch is rolled back, and no
// task has a second effect, but for outside effects of a killed worker.
func debouncesMeetRuns(t *testing.T, d *drill) {
	t.Helper()
	d.exec(t, `CREATE TABLE chaos_debounced (seq BIGINT AUTO_INCREMENT PRIMARY KEY, task_id BINARY(16) NOT NULL, pid INT NOT NULL, KEY (task_id)) ENGINE=InnoDB`)
	client := d.client(t)

	var b debounces
	killed, retried, waits := map[int]bool{}, 0, d.innodb(t, "lock_row_lock_waits")
	stop, halt := b.play(t, client), edit(t, client)
	for i, w := range d.workers {
		d.fault(t, fmt.Sprintf("worker %d killed", i+1), 10*time.Second, func() {
			time.Sleep(8 * time.Second)
			retried += int(w.Metric(t, "duetime_batches_retried_total"))
			killed[w.Pid()] = true
			pipelinetest.Must(t, w.Kill())
			time.Sleep(8 * time.Second)
			d.restart(t, w)
		})
	}
	took := stop()
	newest := halt()
	d.await(t, "all debounced tasks to have run", time.Minute, func() bool {
		return d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE state = 0 AND kind LIKE 'chaos.debounced%'`) == 0
	})
	retried += d.ofWorkers(t, "duetime_batches_retried_total")
	waits = d.innodb(t, "lock_row_lock_waits") - waits
	repeated, doubled := d.judgeDebounces(t, killed)
	d.note(t, "%.0f debounces a second: %d made a task, %d replaced one, %d were answered \"running\"; %d waits for locks, %d batches run again; "+
		"%d outside effects again after a kill, %d without one", float64(b.calls())/took.Seconds(), b.made.Load(), b.replaced.Load(),
		b.running.Load(), waits, retried, repeated, doubled)
	if doubled != 0 || retried != 0 {
		t.Errorf("%d effects twice, %d batches run again, want none", doubled, retried)
	}
	d.judgeDocuments(t, took, newest)
	if b.made.Load() == 0 || b.replaced.Load() == 0 || waits == 0 {
		t.Error("no debounce met a run")
	}
}

// debounces are calls by their answers.
type debounces struct{ made, replaced, running atomic.Int64 }

func (b *debounces) calls() int64 { return b.made.Load() + b.replaced.Load() + b.running.Load() }

// play debounces until stop, which says how long it took.
func (b *debounces) play(t *testing.T, client *duetime.Client) (stop func() time.Duration) {
	ctx, end := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	for i := range debouncers {
		callers.Go(func() {
			tick := time.NewTicker(debounceEvery)
			defer tick.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				<-tick.C
				soon := task.In(rand.N(debounceEvery / 2))
				spec := debounced[n%len(debounced)].New(fmt.Sprint("debouncer-", i/4), struct{}{}, soon, task.KeyReplace("k"))
				made, err := client.Schedule(context.Background(), spec)
				switch {
				case errors.Is(err, task.ErrRunning):
					b.running.Add(1)
				case err != nil:
					t.Errorf("debounce: %v", err)
				case spec.Outcome(made) == task.Made:
					b.made.Add(1)
				default:
					b.replaced.Add(1)
				}
			}
		})
	}
	began := time.Now()
	wait := sync.OnceFunc(func() { end(); callers.Wait() })
	t.Cleanup(wait)
	return func() time.Duration { wait(); return time.Since(began) }
}

// edit changes the documents until stop, which says the last change of each task that was answered.
func edit(t *testing.T, client *duetime.Client) (stop func() map[task.ID]int) {
	ctx, end := context.WithCancel(context.Background())
	type change struct{ Change int }
	kind := task.NewKind[change](debounced[0].Name())
	var mu sync.Mutex
	newest := map[task.ID]int{}
	var editors sync.WaitGroup
	for i := range documents {
		editors.Go(func() {
			tick := time.NewTicker(documentEvery)
			defer tick.Stop()
			for n := 1; ctx.Err() == nil; n++ {
				<-tick.C
				spec := kind.New(fmt.Sprint("document-", i), change{n}, task.In(time.Minute), task.KeyReplace("k"), task.MaxWait(documentWait))
				made, err := client.Schedule(context.Background(), spec)
				if err != nil {
					t.Errorf("change a document: %v", err)
					continue
				}
				mu.Lock()
				newest[made.ID] = n
				mu.Unlock()
			}
		})
	}
	wait := sync.OnceFunc(func() { end(); editors.Wait() })
	t.Cleanup(wait)
	return func() map[task.ID]int { wait(); return newest }
}

// judgeDocuments wants a run of each document at least each documentWait, and its data to be the newest that was answered.
func (d *drill) judgeDocuments(t *testing.T, took time.Duration, newest map[task.ID]int) {
	t.Helper()
	rows, err := d.db.QueryContext(t.Context(),
		`SELECT id, due_at - created_at, payload->>'$.Change' FROM duetime_tasks WHERE owner LIKE 'document-%' AND state = ?`, done)
	pipelinetest.Must(t, err)
	defer func() { _ = rows.Close() }()
	runs, longest := 0, int64(0)
	for ; rows.Next(); runs++ {
		var id task.ID
		var waited int64
		var change int
		pipelinetest.Must(t, rows.Scan(&id, &waited, &change))
		longest = max(longest, waited)
		if change != newest[id] {
			t.Errorf("a document ran with its change %d, and %d was answered", change, newest[id])
		}
	}
	pipelinetest.Must(t, rows.Err())
	d.note(t, "%d documents, each changed every %v for %.0f s, ran %d times, at most %d ms after their first change", documents, documentEvery,
		took.Seconds(), runs, longest)
	if least := documents * int(took/documentWait); longest > documentWait.Milliseconds() || runs < least || runs != len(newest) {
		t.Errorf("%d runs of %d tasks, want at least %d, each within %v", runs, len(newest), least, documentWait)
	}
}

// judgeDebounces wants an effect of each task that is done. It counts further effects: those after the death of the worker that had
// the one before, and all others.
func (d *drill) judgeDebounces(t *testing.T, killed map[int]bool) (repeated, doubled int) {
	t.Helper()
	if n := d.count(t, `SELECT COUNT(*) FROM duetime_tasks AS t LEFT JOIN chaos_debounced ON task_id = t.id
		WHERE kind LIKE 'chaos.debounced%' AND (state <> ? OR task_id IS NULL)`, done); n != 0 {
		t.Errorf("%d tasks are not done, or have no effect", n)
	}
	rows, err := d.db.QueryContext(t.Context(), `SELECT e.pid, before_it.pid, kind FROM chaos_debounced AS e
		JOIN chaos_debounced AS before_it ON before_it.task_id = e.task_id AND before_it.seq < e.seq
		JOIN duetime_tasks AS t ON t.id = e.task_id`)
	pipelinetest.Must(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var pid, before int
		var kind string
		pipelinetest.Must(t, rows.Scan(&pid, &before, &kind))
		if kind == debounced[1].Name() && killed[before] && pid != before {
			repeated++
		} else {
			doubled++
		}
	}
	pipelinetest.Must(t, rows.Err())
	return repeated, doubled
}
