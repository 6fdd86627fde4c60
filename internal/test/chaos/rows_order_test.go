package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

const (
	marchPairs = 100_000
	cities     = 2_000
	marchSpan  = 8 * time.Minute // in which the pairs are due: half of what two cores run, so that a kill leaves a reserve
	marchAhead = 5 * time.Second // before it is due, nobody moves a march any more: a move that commits after a run would be later than it
)

// march takes effect in order; the workers of the row have its handler.
var march = task.NewKind[struct{}]("chaos.march", task.InOrder())

func orderRow() entry {
	return entry{
		n:     88,
		fault: fmt.Sprintf("%d pairs of tasks of different owners, 0 to 3 ms apart, in order, with failures and moves, each worker killed", marchPairs),
		alone: true, setup: setup{worker: "./internal/test/chaos/poison", rate: 100, late: time.Second}, run: marchesMeet,
	}
}

// marchesMeet schedules pairs that arrive at a city, of which each one in twenty fails at first, and moves some.
func marchesMeet(t *testing.T, d *drill) {
	t.Helper()
	d.exec(t, `CREATE TABLE chaos_marches (seq BIGINT AUTO_INCREMENT PRIMARY KEY, task_id BINARY(16) NOT NULL, KEY (task_id)) ENGINE=InnoDB`)
	cfg := duetime.DefaultConfig()
	cfg.Namespace, cfg.MySQL.DSN, cfg.Redis.Addrs, cfg.Kafka.Brokers = d.Namespace, duetime.DSN(d.DSN), []string{d.Redis}, []string{d.Kafka}
	client, err := duetime.Open(cfg, duetime.WithLogger(slog.New(slog.DiscardHandler)))
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = client.Close(context.Background()) })

	moved, stop := 0, make(chan struct{})
	var moving sync.WaitGroup
	ends := sync.OnceFunc(func() { close(stop); moving.Wait() })
	t.Cleanup(ends)
	ids, began := make(chan task.ID, marchPairs), time.Now()
	moving.Go(func() { moved = moveMarches(t, client, ids, stop) })
	scheduleMarches(t, client, began.Add(20*time.Second), ids)
	for i, w := range d.workers {
		time.Sleep(time.Until(began.Add(20*time.Second + time.Duration(i+1)*marchSpan/3)))
		d.fault(t, fmt.Sprintf("worker %d killed", i+1), 45*time.Second, func() {
			pipelinetest.Must(t, w.Kill())
			time.Sleep(takeover)
			d.restart(t, w)
		})
	}
	time.Sleep(time.Until(began.Add(20*time.Second + marchSpan)))
	ends()
	d.await(t, "all marches to have arrived", 3*time.Minute, func() bool { return d.inState(t, march.Name(), pending) == 0 })
	d.judgeMarches(t, moved)
}

// scheduleMarches gives the ids of every fiftieth march to who moves them.
func scheduleMarches(t *testing.T, client *duetime.Client, from time.Time, ids chan<- task.ID) {
	t.Helper()
	const pairs = 250 // in a transaction
	for n := 0; n < marchPairs; n += pairs {
		specs := make([]task.Spec, 0, 2*pairs)
		for i := range pairs {
			at := from.Add(time.Duration(rand.Int64N(marchSpan.Milliseconds())) * time.Millisecond)
			city := task.OrderKey(fmt.Sprint("city-", rand.N(cities)))
			second := at.Add(time.Duration(rand.N(4)) * time.Millisecond)
			specs = append(specs, march.New(fmt.Sprint("marcher-", 2*(n+i)), struct{}{}, task.At(second), city),
				march.New(fmt.Sprint("marcher-", 2*(n+i)+1), struct{}{}, task.At(at), city))
		}
		pipelinetest.Must(t, client.InTx(context.Background(), func(tx *schedule.Tx) error {
			_, err := tx.ScheduleMany(context.Background(), specs)
			return err
		}))
		for i := 0; i < len(specs); i += 50 {
			ids <- specs[i].ID()
		}
	}
}

// moveMarches shifts marches by up to half a minute until stop, and says how many.
func moveMarches(t *testing.T, client *duetime.Client, ids <-chan task.ID, stop <-chan struct{}) (moved int) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return moved
		case <-tick.C:
		}
		select {
		case id := <-ids:
			err := client.InTx(context.Background(), func(tx *schedule.Tx) error { return shiftFarMarch(tx, id) })
			switch {
			case err == nil:
				moved++
			case !errors.Is(err, errNear) && !errors.Is(err, task.ErrRunning):
				t.Errorf("move: %v", err)
			}
		default:
		}
	}
}

var errNear = errors.New("the march is due soon, or has ended")

func shiftFarMarch(tx *schedule.Tx, id task.ID) error {
	row, err := tx.Lock(context.Background(), id)
	if err != nil {
		return err
	}
	now, err := tx.Now(context.Background())
	if err != nil {
		return err
	}
	if row.State != task.Pending || row.DueAt.Sub(now) < marchAhead {
		return errNear
	}
	_, err = tx.Shift(context.Background(), id, time.Duration(rand.N(30_000))*time.Millisecond)
	return err
}

// judgeMarches wants each march to have taken effect once, in the order of its city.
func (d *drill) judgeMarches(t *testing.T, moved int) {
	t.Helper()
	lost := d.count(t, `SELECT COUNT(*) FROM duetime_tasks AS t WHERE kind = ? AND (state <> ? OR NOT EXISTS
		(SELECT 1 FROM chaos_marches WHERE task_id = t.id))`, march.Name(), done)
	doubled := d.count(t, `SELECT COUNT(*) - COUNT(DISTINCT task_id) FROM chaos_marches`)
	inverted := d.count(t, `SELECT COUNT(*) FROM (SELECT due_at, id, LAG(due_at) OVER city AS due_before, LAG(id) OVER city AS id_before
		FROM chaos_marches JOIN duetime_tasks ON id = task_id WINDOW city AS (PARTITION BY order_key ORDER BY seq)) AS arrived
		WHERE due_before > due_at OR due_before = due_at AND id_before > id`)
	failed := d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE kind = ? AND attempt > 0`, march.Name())
	late := d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE kind = ? AND attempt = 0 AND finished_at > due_at + 1000`, march.Name())
	left := d.count(t, `SELECT COUNT(*) FROM duetime_orders`)
	d.note(t, "%d marches: %d inverted, %d lost, %d doubled; %d failed at first, %d moved, %d of the others more than a second late; waited for one before it: %d looks",
		2*marchPairs, inverted, lost, doubled, failed, moved, late, d.ofWorkers(t, `duetime_tasks_settled_total{kind="chaos.march",result="behind"}`))
	if inverted != 0 || lost != 0 || doubled != 0 || left != 0 {
		t.Errorf("inverted: %d marches took effect before an earlier one of their city; %d lost, %d doubled, %d rows of duetime_orders left", inverted, lost, doubled, left)
	}
	if failed == 0 || moved == 0 {
		t.Errorf("%d marches failed at first, and %d were moved: want some", failed, moved)
	}
}
