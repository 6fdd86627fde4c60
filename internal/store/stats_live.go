package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Live has figures of the pipeline at one moment, from the rows only.
type Live struct {
	Now       time.Time            // of the database
	States    map[task.State]int64 // MaxCounted at most
	Scheduled int64                // rows made within the window
	Fired     int64                // rows done within it
	// Lag of the fired rows; zero when there are none.
	LagP50, LagP99, LagMax time.Duration
	Due                    map[string]DueTasks // by queue: tasks that are due and not done; queues without such tasks are absent
	Whole                  bool                // false: Due may lack queues, see Waiting
	Paused                 map[string]time.Time
	Degraded               map[string]int // workers, by queue; others are absent
	Epochs                 map[string]int64
	Processes              []Process
	Witness                Witnessed            // zero also if the user may not read it
	Unhandled              []protocol.Unhandled // tasks that wait for a worker of their kind, among those that are due and the next ones
}

// MaxCounted is how many rows of a state Live counts: there may be more than a number that reaches it.
const MaxCounted = 100_000

const (
	liveUnhandled = 5000            // next tasks that Live reads to find those that wait for a worker of their kind
	liveBehind    = 2 * time.Second // of the search for due tasks behind more than can be counted
)

// DueTasks are the tasks of one queue that are due and not done.
type DueTasks struct {
	Tasks  int64
	Cut    bool      // Tasks is a lower bound
	Oldest time.Time // the earliest run time
}

// Live reads the figures of the last window. It reads the window's rows by an index, and a bounded part of the others. The
// server gives up its statements soon after the deadline of ctx.
func (s *Store) Live(ctx context.Context, window time.Duration) (Live, error) {
	var l Live
	var err error
	var ms int64
	if err = s.db.QueryRowxContext(ctx, "SELECT "+s.dialect.now()).Scan(&ms); err != nil { // a replica may answer too
		return l, fmt.Errorf("read the database's clock: %w", err)
	}
	l.Now = fromMs(ms)
	for _, read := range []func(context.Context, *Live, time.Duration) error{s.liveStates, s.liveRates, s.liveDue, s.liveRequests} {
		if err := read(ctx, &l, window); err != nil {
			return l, fmt.Errorf("read live figures: %w", err)
		}
	}
	return l, nil
}

func (s *Store) liveStates(ctx context.Context, l *Live, _ time.Duration) error {
	floor, err := s.floorMs(ctx)
	if err != nil {
		return err
	}
	l.States = map[task.State]int64{}
	from := floor // of pending rows
	for state := task.Pending; state <= task.Dead; state++ {
		limit := int64(cmp.Or(s.maxCounted, MaxCounted))
		orders := []indexOrder{{index: "duetime_tasks_due", column: "run_at"}}
		if endedTasks.mayHave(&state) {
			orders = append(orders, indexOrder{table: endedTasks, index: "PRIMARY", column: "finished_at"})
		}
		for _, o := range orders {
			var n int64
			order := "" // of ended rows the newest: at the other end a snapshot that is kept shows the purged ones
			if o.table == endedTasks {
				order = " ORDER BY finished_at DESC"
			}
			err = s.db.GetContext(ctx, &n, SelectUntil(ctx)+"COUNT(*) FROM (SELECT 1"+o.from(s.dialect)+
				" WHERE state = ? AND "+o.column+" >= ?"+order+" LIMIT ?) AS some", int8(state), from, limit-l.States[state])
			if err != nil {
				return err
			}
			l.States[state] += n
		}
		from = wholeTime
	}
	return nil
}

func (s *Store) liveRates(ctx context.Context, l *Live, window time.Duration) error {
	from := l.Now.Add(-window).UnixMilli()
	changed := " FROM duetime_tasks" + s.dialect.Force("duetime_tasks_updated") + " WHERE updated_at >= ?"
	err := s.db.QueryRowxContext(ctx, SelectUntil(ctx)+"COUNT(*)"+changed+" AND created_at >= ?", from, from).Scan(&l.Scheduled)
	if err != nil {
		return err
	}
	st := Stats{}
	l.Fired, err = readLags(ctx, s.db, &st, " FROM (SELECT "+lagOf+" AS behind"+changed+" AND state = 1 AND finished_at IS NOT NULL) AS done", from)
	l.LagP50, l.LagP99, l.LagMax = st.LagP50, st.LagP99, st.LagMax
	return err
}

func (s *Store) liveDue(ctx context.Context, l *Live, _ time.Duration) error {
	waiting, whole, at, err := s.Waiting(ctx, 0, liveBehind)
	if err != nil {
		return err
	}
	l.Due, l.Whole = map[string]DueTasks{}, whole
	for _, w := range waiting {
		d, found := l.Due[w.Queue]
		if !found || w.Oldest.Before(d.Oldest) {
			d.Oldest = w.Oldest
		}
		l.Due[w.Queue] = DueTasks{d.Tasks + w.Due, d.Cut || w.Cut, d.Oldest}
	}
	l.Unhandled, err = s.Unhandled(ctx, waiting, at, liveUnhandled)
	return err
}

func (s *Store) liveRequests(ctx context.Context, l *Live, _ time.Duration) (err error) {
	if l.Paused, err = s.Paused(ctx); err != nil {
		return err
	}
	if l.Degraded, err = s.Degraded(ctx, l.Now); err != nil {
		return err
	}
	if l.Processes, err = s.Processes(ctx); err != nil {
		return err
	}
	l.Witness, _ = s.Witnessed(ctx) // rights on its table came later than the others
	l.Epochs, err = counts[string](ctx, s.db, "SELECT name, epoch FROM duetime_epochs")
	return err
}
