// Command poison is the game's worker with further kinds of task whose handlers misbehave. The fault suite runs it in the
// place of cmd/worker.
//
//	chaos.panic  panics
//	chaos.deaf   ignores its context, for a minute
//	chaos.slow   takes longer than a SIGTERM leaves it, then has an effect: a line in chaos_effects
//	chaos.exit   ends the process
//	chaos.tick   is made by a recurrence; snoozes as long as its payload says, fails now and then, and has an effect: a line in chaos_ticks
//	chaos.chain  has an effect, a line in chaos_chain, and schedules the next task of its owner
//	chaos.member    is dead at its first attempt, if its payload says so
//	chaos.follower  has an effect: a line in chaos_followers, with the counts of its group
//	chaos.debounced          takes a while, and has an effect: a line in chaos_debounced
//	chaos.debounced_outside  likewise, outside its transaction
//	chaos.paced  pauses its key while somebody's API refuses it, by chaos_refuses, and has an effect then: a line in chaos_paced
//	chaos.refill  see package refill
//	chaos.march  fails now and then at first, and has an effect: a line in chaos_marches; in order
//	chaos.limited  has an effect: a line in chaos_limited; of a queue of its own, if there is one
//	chaos.cut    ends its own connection
//	chaos.full   fills a table in memory of its own
//	chaos.long   runs a statement beyond the server's limit
//	chaos.idle   leaves its transaction idle beyond the server's limit
//	chaos.mail   acts outside, a line in chaos_mails, and ends its own transaction from there
package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/internal/command"
	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/process"
	"github.com/duetime/duetime/internal/test/chaos/refill"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

type nothing struct{}

const slow = 12 * time.Second

var soon = task.Retry(task.Backoff{Min: 100 * time.Millisecond, Max: 500 * time.Millisecond})

func main() { os.Exit(process.Main("worker", config.DefaultPath, run)) }

func run(ctx context.Context, env *process.Env) error {
	settings := pet.DefaultSettings()
	cfg, err := command.Configure(ctx, env, func(c config.Config) string { return c.Worker.Admin }, settings)
	if err != nil {
		return err
	}
	env.SetDrain(cfg.Worker.Drain)
	client, err := duetime.Open(cfg, duetime.WithLogger(env.Log()), duetime.WithMetrics(env.Registry), duetime.OnJoined(env.Ready))
	if err != nil {
		return err
	}
	env.OnStop("client", client.Close)
	mux := pet.NewGame(settings.Rules()).Handlers()
	misbehave(mux)
	worker.Handle(mux, task.NewKind[tick]("chaos.tick", soon), ticked)
	worker.Handle(mux, chain, linked)
	worker.Handle(mux, task.NewKind[member]("chaos.member"), joined)
	worker.Handle(mux, task.NewKind[member]("chaos.follower", soon), followed)
	worker.Handle(mux, task.NewKind[nothing]("chaos.debounced", soon), func(ctx context.Context, tx *worker.Tx, t worker.Task[nothing]) error {
		return debounced(ctx, tx, t.ID)
	})
	worker.HandleOutside(mux, task.NewKind[nothing]("chaos.debounced_outside", soon), func(ctx context.Context, t worker.Task[nothing]) error {
		return debounced(ctx, client.DB(), t.ID)
	})
	worker.Handle(mux, task.NewKind[nothing]("chaos.march", task.InOrder(), soon), arrived)
	worker.Handle(mux, task.NewKind[nothing]("chaos.paced", soon), func(ctx context.Context, tx *worker.Tx, t worker.Task[nothing]) error {
		return paced(ctx, tx, client.DB(), t.ID)
	})
	for _, queue := range slices.Concat(cfg.Queues, cfg.Worker.Queues) {
		if queue != "default" {
			worker.Handle(mux, task.NewKind[nothing]("chaos.limited", task.Queue(queue)), limited)
			break
		}
	}
	refill.Handle(mux)
	provoke(mux, client.DB())
	return client.Work(ctx, mux)
}

// tick is the payload of chaos.tick.
type tick struct {
	TakesMs int64 `json:"takes_ms"`
}

func ticked(ctx context.Context, tx *worker.Tx, t worker.Task[tick]) error {
	_, at, ok := t.Tick()
	switch {
	case !ok:
		return errors.New("no recurrence has made this task")
	case at.Unix()%7 == 3 && t.Attempt == 0:
		return errors.New("one in seven fails once")
	}
	if long := time.Duration(t.Payload.TakesMs) * time.Millisecond; long > 0 && t.RunAt.Equal(t.DueAt) {
		return worker.Snooze(long)
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO chaos_ticks (task_id) VALUES (?)`, t.ID.String())
	return err
}

var chain = task.NewKind[nothing]("chaos.chain", soon)

func linked(ctx context.Context, tx *worker.Tx, t worker.Task[nothing]) error {
	_, err := tx.Schedule(ctx, chain.New(t.Owner, nothing{}, task.In(time.Second)))
	if err != nil && !errors.Is(err, task.ErrOwnerBlocked) { // a task of a blocked owner must not run at all
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO chaos_chain (owner) VALUES (?)`, t.Owner)
	return err
}

// member is the payload of chaos.member, and of chaos.follower.
type member struct {
	Dies  bool       `json:"dies"`
	Group task.Group `json:"group"`
}

func joined(_ context.Context, _ *worker.Tx, t worker.Task[member]) error {
	if t.Payload.Dies {
		return worker.Discard(errors.New("one of the dead"))
	}
	return nil
}

func followed(ctx context.Context, tx *worker.Tx, t worker.Task[member]) error {
	g := t.Payload.Group
	_, err := tx.ExecContext(ctx, `INSERT INTO chaos_followers (task_id, name, done, dead, cancelled) VALUES (?, ?, ?, ?, ?)`,
		t.ID.String(), g.Name, g.Done, g.Dead, g.Cancelled)
	return err
}

// debounced has its effect first: whatever ends the run later makes it come again.
func debounced(ctx context.Context, db sqlx.ExecerContext, id task.ID) error {
	if _, err := db.ExecContext(ctx, `INSERT INTO chaos_debounced (task_id, pid) VALUES (?, ?)`, id[:], os.Getpid()); err != nil {
		return err
	}
	select {
	case <-time.After(20 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func arrived(ctx context.Context, tx *worker.Tx, t worker.Task[nothing]) error {
	if _, err := tx.ExecContext(ctx, `INSERT INTO chaos_marches (task_id) VALUES (?)`, t.ID[:]); err != nil {
		return err
	}
	if t.Attempt == 0 && t.ID[len(t.ID)-1]%20 == 0 {
		return errors.New("one in twenty fails once")
	}
	return nil
}

func limited(ctx context.Context, tx *worker.Tx, t worker.Task[nothing]) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO chaos_limited (task_id, at) VALUES (?, NOW(3))`, t.ID.String())
	return err
}

// paced notes a refusal outside of its transaction, which is rolled back.
func paced(ctx context.Context, tx *worker.Tx, db sqlx.ExecerContext, id task.ID) error {
	var now, until int64
	err := tx.QueryRowContext(ctx, `SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED), until_ms FROM chaos_refuses`).Scan(&now, &until)
	if err != nil {
		return err
	}
	if now >= until {
		_, err = tx.ExecContext(ctx, `INSERT INTO chaos_paced (task_id, at_ms) VALUES (?, ?)`, id.String(), now)
		return err
	}
	if _, err := db.ExecContext(ctx, `INSERT INTO chaos_refusals (at_ms) VALUES (?)`, now); err != nil {
		return err
	}
	return worker.PauseKey(time.Now().Add(time.Duration(until-now) * time.Millisecond))
}

func misbehave(mux *worker.Mux) {
	handle := func(name string, run func(ctx context.Context, tx *worker.Tx, t worker.Task[nothing]) error) {
		worker.Handle(mux, task.NewKind[nothing](name, soon), run)
	}
	handle("chaos.panic", func(context.Context, *worker.Tx, worker.Task[nothing]) error { panic("poison") })
	handle("chaos.deaf", func(context.Context, *worker.Tx, worker.Task[nothing]) error {
		time.Sleep(time.Minute)
		return nil
	})
	handle("chaos.slow", func(ctx context.Context, tx *worker.Tx, t worker.Task[nothing]) error {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return ctx.Err()
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO chaos_effects (task_id) VALUES (?)`, t.ID.String())
		return err
	})
	handle("chaos.exit", func(context.Context, *worker.Tx, worker.Task[nothing]) error {
		os.Exit(7)
		return nil
	})
}
