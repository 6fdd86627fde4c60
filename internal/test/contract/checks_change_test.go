package contract_test

import (
	"github.com/duetime/duetime/pkg/task"
)

func checkSchedule(c *check) {
	for _, owner := range []string{c.owner, c.owner + "b", c.owner + "cd"} {
		id, due := task.NewID(), c.now()+hour
		from := c.now()
		c.wantAnswer(c.a.ask(request{
			Do: "schedule", ID: &id, Owner: owner, Queue: queueName, Due: due, Payload: map[string]string{"name": "Zoë"},
		}), "yes")
		c.wantRow(id, row{
			Kind: kindName, Owner: owner, Queue: queueName, Place: true, Due: due, Run: due, Version: 1, MaxAttempts: 25,
		}, "Payload", "Created", "Changed")
		got := c.row(id)
		c.wantBetween("created_at", got.Created, from, c.now())
		if got.Changed != got.Created {
			c.faultf("updated_at is %d, and created_at %d", got.Changed, got.Created)
		}
		const sameName = `SELECT COUNT(*) FROM duetime_tasks WHERE id = ? AND JSON_UNQUOTE(JSON_EXTRACT(payload, '$.name')) = 'Zoë'`
		if c.number(sameName, id[:]) != 1 {
			c.faultf("the payload is %s", got.Payload)
		}
	}
}

func checkScheduleCrash(c *check) {
	id := task.NewID()
	r := request{Do: "schedule", ID: &id, Owner: c.owner, Queue: queueName, Due: c.now() + hour, Payload: 1}
	c.a.stopAt("written", r)
	c.a.kill()
	c.wantRow(id, row{})
	c.wantAnswer(c.a.ask(r), "yes")
}

func checkScheduleOnce(c *check) {
	first := c.plant(at(hour, hour), keyed("kone"))
	before := c.row(first)
	id := task.NewID()
	r := request{Do: "schedule", ID: &id, Owner: c.owner, Queue: queueName, Key: "one", Due: c.now() + hour, Payload: 1}
	c.wantAnswer(c.a.ask(r), "taken")
	c.wantRow(id, row{})
	c.wantRow(first, before)
	r.Key = "two"
	c.wantAnswer(c.a.ask(r), "yes")
	if got := c.row(id).Key; got != "ktwo" {
		c.faultf("dedup_key is %q", got)
	}
	before = c.row(id)
	c.wantAnswer(c.b.ask(r), "yes") // as after a COMMIT whose answer was lost
	c.wantRow(id, before)
}

func checkMove(c *check) {
	id := c.plant(at(hour, 2*hour), attempted(3), keyed("kmove"))
	from := c.now()
	want := c.row(id)
	want.Due, want.Run, want.Version = from+3*hour, from+3*hour, 2
	c.wantAnswer(c.a.ask(request{Do: "move", ID: &id, Due: want.Due}), "yes")
	c.wantRow(id, want, "Changed")
	c.wantBetween("updated_at", c.row(id).Changed, from, c.now())

	from = c.now()
	want.Version++
	c.wantAnswer(c.a.ask(request{Do: "move", ID: &id, Due: from - hour}), "yes")
	c.wantRow(id, want, "Due", "Run", "Changed")
	got := c.row(id)
	c.wantBetween("due_at, moved to the past,", got.Due, from, c.now())
	c.wantBetween("run_at, moved to the past,", got.Run, got.Due, got.Due)
}

func checkCancel(c *check) {
	for stored, after := range map[string]string{"kcancel": "", "ocancel": "ocancel", "": ""} {
		id := c.plant(at(hour, hour), keyed(stored))
		from, want := c.now(), ended(c.row(id), cancelled, after)
		c.wantAnswer(c.a.ask(request{Do: "cancel", ID: &id}), "yes")
		c.wantRow(id, want, "Changed", "Ended")
		c.wantBetween("updated_at", c.row(id).Changed, from, c.now())
		c.wantBetween("finished_at", c.row(id).Ended, from, c.now())
	}
}

func checkEnded(c *check) {
	for state, says := range map[int]string{done: "done", cancelled: "cancelled", dead: "dead"} {
		id := c.plant(in(state))
		before := c.row(id)
		c.wantAnswer(c.a.ask(request{Do: "move", ID: &id, Due: c.now() + hour}), says)
		c.wantAnswer(c.a.ask(request{Do: "cancel", ID: &id}), says)
		c.wantRow(id, before)
	}
	unknown := task.NewID()
	c.wantAnswer(c.a.ask(request{Do: "move", ID: &unknown, Due: c.now() + hour}), "missing")
	c.wantAnswer(c.a.ask(request{Do: "cancel", ID: &unknown}), "missing")
}

// checkStale has a caller act on what he saw before somebody else changed it.
func checkStale(c *check) {
	id := c.plant(at(hour, hour))
	c.exec("UPDATE duetime_tasks SET version = 3 WHERE id = ?", id[:])
	before := c.row(id)
	c.wantAnswer(c.a.ask(request{Do: "cancel", ID: &id, Version: 2}), "stale")
	c.wantAnswer(c.a.ask(request{Do: "move", ID: &id, Version: 2, Due: c.now() + minute}), "stale")
	c.wantRow(id, before)
	c.wantAnswer(c.a.ask(request{Do: "move", ID: &id, Version: 3, Due: c.now() + minute}), "yes")
	c.wantAnswer(c.a.ask(request{Do: "cancel", ID: &id, Version: 4}), "yes")
}
