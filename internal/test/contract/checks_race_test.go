package contract_test

import (
	"database/sql"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/duetimetest"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
)

// settleFree settles until the task has ended: after a kill the server frees its locks a little later.
func (c *check) settleFree(id task.ID) {
	c.t.Helper()
	pipelinetest.Await(c.t, "the task's lock", func() bool {
		c.a.ask(settle(id))
		return c.row(id).State != pending
	})
}

func checkTwice(c *check) {
	id := c.plant()
	want := ended(c.row(id), done, "")
	c.a.stopAt("begin", settle(id))
	c.b.begin(settle(id))
	c.b.waitsOrAnswers()
	c.a.goOn()
	c.b.answer()
	c.b.ask(settle(id))
	c.wantRow(id, want, "Changed", "Ended")
	c.wantEffects(id, 1)
}

func checkCancelWhileSettling(c *check) {
	c.changeWhileSettling(func(id task.ID) request { return request{Do: "cancel", ID: &id} })
}

func checkMoveWhileSettling(c *check) {
	c.changeWhileSettling(func(id task.ID) request { return request{Do: "move", ID: &id, Due: c.now() + hour} })
}

// changeWhileSettling changes a task whose effect has begun: nobody may be told yes.
func (c *check) changeWhileSettling(change func(task.ID) request) {
	id := c.plant()
	want := ended(c.row(id), done, "")
	c.a.stopAt("begin", settle(id))
	c.b.begin(change(id))
	c.b.waitsOrAnswers()
	c.a.goOn()
	c.wantAnswer(c.b.answer(), "done", "locked")
	c.wantAnswer(c.b.ask(change(id)), "done")
	c.wantRow(id, want, "Changed", "Ended")
	c.wantEffects(id, 1)
}

func checkSettleWhileCancelling(c *check) {
	id := c.plant()
	want := ended(c.row(id), cancelled, "")
	c.settleWhileChanging(id, request{Do: "cancel", ID: &id})
	c.wantRow(id, want, "Changed", "Ended")
}

func checkSettleWhileMoving(c *check) {
	id := c.plant()
	want := c.row(id)
	want.Due, want.Version = c.now()+hour, 2
	want.Run = want.Due
	c.settleWhileChanging(id, request{Do: "move", ID: &id, Due: want.Due})
	c.wantRow(id, want, "Changed")
}

// settleWhileChanging settles a task whose change is not committed yet.
func (c *check) settleWhileChanging(id task.ID, change request) {
	c.b.stopAt("written", change)
	c.a.begin(settle(id))
	c.a.waitsOrAnswers()
	c.wantAnswer(c.b.goOn(), "yes")
	c.a.answer()
	c.a.ask(settle(id))
	c.wantEffects(id, 0)
}

func checkCrash(c *check) {
	id := c.plant()
	before := c.row(id)
	c.a.stopAt("end", settle(id))
	c.a.kill()
	c.wantRow(id, before)
	c.wantEffects(id, 0)
	c.settleFree(id)
	c.wantRow(id, ended(before, done, ""), "Changed", "Ended")
	c.wantEffects(id, 1)
}

func checkCancelCrash(c *check) {
	id := c.plant()
	before := c.row(id)
	c.b.stopAt("written", request{Do: "cancel", ID: &id})
	c.b.kill()
	c.wantRow(id, before)
	c.settleFree(id)
	c.wantRow(id, ended(before, done, ""), "Changed", "Ended")
	c.wantEffects(id, 1)
}

// checkLostTransaction makes a deadlock, whose victim is the settling transaction, and has the effect ignore the error.
func checkLostTransaction(c *check) {
	ctx := c.t.Context()
	id := c.plant()
	want := ended(c.row(id), done, "")
	c.exec("INSERT INTO contract_totals VALUES (?, 0)", c.owner)
	tx, err := c.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	pipelinetest.Must(c.t, err)
	defer func() { _ = tx.Rollback() }()
	exec := func(query string, args ...any) {
		_, err := tx.ExecContext(ctx, query, args...)
		pipelinetest.Must(c.t, err)
	}
	exec("UPDATE contract_totals SET n = 10 WHERE owner = ?", c.owner)
	exec("INSERT INTO contract_weights SELECT seq FROM " + pipelinetest.Numbers(1, 500)) // the victim is who has changed least
	r := settle(id)
	r.Careless = true
	c.a.begin(r)
	c.a.waitsOrAnswers()
	exec("SELECT id FROM duetime_tasks WHERE id = ? FOR UPDATE", id[:])
	pipelinetest.Must(c.t, tx.Rollback())
	c.a.answer()
	c.settleFree(id)
	c.wantRow(id, want, "Changed", "Ended")
	c.wantEffects(id, 1)
	if n := c.number("SELECT n FROM contract_totals WHERE owner = ?", c.owner); n != 1 {
		c.faultf("the effect's second statement counts %d, want 1", n)
	}
}

// checkRecurrence settles and cancels tasks of recurrences: who ends one makes the next one. An implementation that can't
// leaves them alone.
func checkRecurrence(c *check) {
	client := duetimetest.Client(c.t, c.db)
	for _, verb := range []string{"settle", "cancel"} {
		spec := task.NewKind[int](kindName, task.Queue(queueName)).Recurring(c.owner, 1)
		_, err := client.Recur(c.t.Context(), verb, recur.Every(time.Hour), spec, recur.Policy{})
		pipelinetest.Must(c.t, err)
		var id task.ID
		pipelinetest.Must(c.t, c.db.QueryRowContext(c.t.Context(),
			"SELECT newest FROM duetime_recurrences WHERE owner = ? AND name = ?", c.owner, verb).Scan(&id))
		c.exec("UPDATE duetime_tasks SET due_at = ?, run_at = due_at WHERE id = ?", c.now()-second, id[:])
		c.a.ask(request{Do: verb, ID: &id})
		got := c.row(id)
		followed := c.number(`SELECT COUNT(*) FROM duetime_recurrences AS r JOIN duetime_tasks AS t ON t.id = r.newest
			WHERE r.owner = ? AND r.name = ? AND t.state = 0`, c.owner, verb)
		if followed != 1 {
			c.faultf("%s: the task is in state %d, and the recurrence has no next one", verb, got.State)
		}
		if got.State == pending {
			c.wantEffects(id, 0)
		}
	}
}
