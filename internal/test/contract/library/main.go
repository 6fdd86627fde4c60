// Command library drives duetime's own code by the protocol of package contract.
//
//	library HOST PORT SCHEMA
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

const kindName = "contract.effect"

// request is a line that the adapter reads.
type request struct {
	Do       string          `json:"do"`
	ID       task.ID         `json:"id"`
	Owner    string          `json:"owner"`
	Queue    string          `json:"queue"`
	Key      string          `json:"key"`
	Due      *int64          `json:"due"`
	Version  *int64          `json:"version"`
	Payload  json.RawMessage `json:"payload"`
	Fail     string          `json:"fail"`
	Careless bool            `json:"careless"`
	Stops    []string        `json:"stops"`
}

func (r request) when() task.When { return task.At(time.UnixMilli(*r.Due)) }

// adapter carries out one request at a time.
type adapter struct {
	lines   *bufio.Scanner
	out     *json.Encoder
	store   *store.Store // of workers
	client  *schedule.Client
	worker  *engine.Worker
	looks   map[string]protocol.Cursor // by queue: where the next look goes on
	request request                    // the present one
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "library:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("want HOST PORT SCHEMA")
	}
	dsn := "root@tcp(" + net.JoinHostPort(args[0], args[1]) + ")/" + args[2]
	a := &adapter{lines: bufio.NewScanner(os.Stdin), out: json.NewEncoder(os.Stdout), looks: map[string]protocol.Cursor{}}
	if err := a.open(dsn); err != nil {
		return err
	}
	ctx := context.Background()
	for a.lines.Scan() {
		a.request = request{}
		if err := json.Unmarshal(a.lines.Bytes(), &a.request); err != nil {
			return err
		}
		answer, err := a.do(ctx)
		if err != nil {
			return err
		}
		if err := a.out.Encode(map[string]string{"answer": answer}); err != nil {
			return err
		}
	}
	return a.lines.Err()
}

// open opens what a service and a worker have, each with the sessions that it has in earnest.
func (a *adapter) open(dsn string) error {
	services, err := store.Open(dsn, store.Options{})
	if err != nil {
		return err
	}
	if a.client, err = schedule.New(schedule.Config{}, services, nowhere{}, nowhere{}); err != nil {
		return err
	}
	if a.store, err = store.Open(dsn, store.ForWorker(1, 1, time.Minute)); err != nil {
		return err
	}
	mux := worker.NewMux()
	worker.Handle(mux, kind("default"), a.effect)
	a.worker, err = engine.New(engine.Config{HandlerTimeout: time.Minute}, mux, a.store, nil, nowhere{}, nowhere{})
	return err
}

func kind(queue string) task.Kind[json.RawMessage] {
	return task.NewKind[json.RawMessage](kindName, task.Queue(queue))
}

func (a *adapter) do(ctx context.Context) (string, error) {
	r := a.request
	switch r.Do {
	case "schedule":
		return a.schedule(ctx)
	case "move":
		return a.change(ctx, func(tx *schedule.Tx) (task.Task, error) { return tx.Reschedule(ctx, r.ID, r.when()) })
	case "cancel":
		return a.change(ctx, func(tx *schedule.Tx) (task.Task, error) { return tx.Cancel(ctx, r.ID) })
	case "settle":
		return a.settle(ctx)
	case "look":
		return a.look(ctx)
	}
	return "", fmt.Errorf("unknown request %q", r.Do)
}

func (a *adapter) schedule(ctx context.Context) (answer string, err error) {
	r := a.request
	options := []task.Option{task.WithID(r.ID)}
	if r.Key != "" {
		options = append(options, task.Key(r.Key))
	}
	spec := kind(r.Queue).New(r.Owner, r.Payload, r.when(), options...)
	err = a.client.InTx(ctx, func(tx *schedule.Tx) error {
		made, err := tx.Schedule(ctx, spec)
		if err != nil {
			return err
		}
		answer = "yes"
		if spec.Outcome(made) == task.Kept {
			answer = "taken"
		}
		return a.stop("written")
	})
	return answer, err
}

var errStale = errors.New("stale")

// change changes a task. The library compares no versions: the transition is rolled back if it was made from another one.
func (a *adapter) change(ctx context.Context, change func(*schedule.Tx) (task.Task, error)) (string, error) {
	err := a.client.InTx(ctx, func(tx *schedule.Tx) error {
		changed, err := change(tx)
		if err != nil {
			return err
		}
		if v := a.request.Version; v != nil && changed.Version != *v+1 {
			return errStale
		}
		return a.stop("written")
	})
	for _, refusal := range []struct {
		err  error
		says string
	}{
		{nil, "yes"},
		{task.ErrAlreadyDone, "done"},
		{task.ErrAlreadyCancelled, "cancelled"},
		{task.ErrAlreadyDead, "dead"},
		{task.ErrNotFound, "missing"},
		{task.ErrRunning, "locked"},
		{errStale, "stale"},
	} {
		if errors.Is(err, refusal.err) {
			return refusal.says, nil
		}
	}
	return "", err
}

// settle takes a hint of the task through the worker's own transactions.
func (a *adapter) settle(ctx context.Context) (string, error) {
	rows, err := a.store.Get(ctx, nil, []task.ID{a.request.ID})
	if err != nil || len(rows) == 0 {
		return "missing", err
	}
	row := rows[0]
	outcomes, err := a.worker.Pass(ctx, []protocol.Hint{{
		ID: row.ID, Kind: row.Kind, Owner: row.Owner, RunAt: row.RunAt.UnixMilli(), Version: protocol.WindowedVersion(row.Version),
	}})
	if err != nil {
		return "", err
	}
	return outcomes[0].Result, nil
}

// effect is the handler.
func (a *adapter) effect(ctx context.Context, tx *worker.Tx, t worker.Task[json.RawMessage]) error {
	if err := a.stop("begin"); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO contract_effects (task) VALUES (?)", t.ID[:]); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "UPDATE contract_totals SET n = n + 1 WHERE owner = ?", t.Owner)
	if err != nil && !a.request.Careless {
		return err
	}
	if a.request.Due != nil {
		if _, err := tx.Reschedule(ctx, t.ID, a.request.when()); err != nil {
			return err
		}
	}
	if err := a.stop("end"); err != nil {
		return err
	}
	if a.request.Fail != "" {
		return errors.New(a.request.Fail)
	}
	return nil
}

const maxExamined = 2000 // rows of one look

func (a *adapter) look(ctx context.Context) (string, error) {
	queue := a.request.Queue
	paused, err := a.store.Paused(ctx)
	if _, is := paused[queue]; is || err != nil {
		return "", err
	}
	now, err := a.store.Now(ctx, nil)
	if err != nil {
		return "", err
	}
	rows, next, err := a.store.Look(ctx, protocol.Look{
		Queue: queue, Kinds: []string{kindName}, To: now.Add(time.Millisecond), After: a.looks[queue], Limit: maxExamined,
	})
	if err != nil {
		return "", err
	}
	a.looks[queue] = next
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID.String()
	}
	return strings.Join(ids, ","), nil
}

// stop waits for a line, if the request asks for a stop at this point. A point is passed once: a transaction that begins anew
// goes on.
func (a *adapter) stop(point string) error {
	i := slices.Index(a.request.Stops, point)
	if i < 0 {
		return nil
	}
	a.request.Stops = slices.Delete(a.request.Stops, i, i+1)
	if err := a.out.Encode(map[string]string{"at": point}); err != nil {
		return err
	}
	if !a.lines.Scan() {
		return errors.New("no further line")
	}
	return nil
}

// nowhere is an index and a stream that keep nothing: the contract is about rows.
type nowhere struct{}

func (nowhere) Put(context.Context, []task.Task) error                  { return nil }
func (nowhere) Offer([]task.Task)                                       {}
func (nowhere) Compensate(context.Context, protocol.Compensation) error { return nil }
func (nowhere) Bury(context.Context, []protocol.DeadLetter) error       { return nil }

func (nowhere) OwnerPage(context.Context, int, string, string, string, int) ([]protocol.Entry, string, string, error) {
	return nil, "", "", nil
}
