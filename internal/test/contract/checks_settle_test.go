package contract_test

import (
	"encoding/base64"
	"strings"

	"github.com/duetime/duetime/pkg/task"
)

func settle(id task.ID) request { return request{Do: "settle", ID: pointer(id)} }

func checkDone(c *check) {
	for stored, after := range map[string]string{"kdone": "", "odone": "odone", "": ""} {
		id := c.plant(keyed(stored), attempted(2))
		from, want := c.now(), ended(c.row(id), done, after)
		c.a.ask(settle(id))
		c.wantRow(id, want, "Changed", "Ended")
		c.wantEffects(id, 1)
		c.wantBetween("updated_at", c.row(id).Changed, from, c.now())
		c.wantBetween("finished_at", c.row(id).Ended, from, c.now())
		c.a.ask(settle(id))
		c.wantEffects(id, 1)
	}
}

// checkEarly settles tasks that are due on the clock of the adapter's machine, and not on MySQL's.
func checkEarly(c *check) {
	for _, times := range [][2]int64{{ahead / 2, ahead / 2}, {-second, ahead / 2}, {ahead / 2, -second}} {
		id := c.plant(at(times[0], times[1]))
		c.a.ask(settle(id))
		c.wantEffects(id, 0)
		if got := c.row(id); got.State != pending || got.Attempt != 0 {
			c.faultf("due in %d ms, run in %d ms: state %d, attempt %d", times[0], times[1], got.State, got.Attempt)
		}
	}
}

func checkSettleEnded(c *check) {
	for _, state := range []int{done, cancelled, dead} {
		id := c.plant(in(state))
		before := c.row(id)
		c.a.ask(settle(id))
		c.wantRow(id, before)
		c.wantEffects(id, 0)
	}
}

// checkOwnMove has an effect put its own task off, as a lamp that blinks: the end of the effect must not end the task.
func checkOwnMove(c *check) {
	id := c.plant()
	r, want := settle(id), c.row(id)
	r.Due = c.now() + hour
	want.Due, want.Run, want.Version = r.Due, r.Due, 2
	c.a.ask(r)
	c.wantRow(id, want, "Changed")
	c.wantEffects(id, 1)
}

func checkFailure(c *check) {
	for _, before := range []int64{0, 2} {
		id := c.plant(keyed("kfail"), attempted(before))
		r, want := settle(id), c.row(id)
		r.Fail = "out of paper"
		want.Attempt, want.Version = before+1, 2
		from := c.now()
		c.a.ask(r)
		c.wantRow(id, want, "Run", "LastError", "Changed")
		c.wantEffects(id, 0)
		got := c.row(id)
		c.wantBetween("updated_at", got.Changed, from, c.now())
		c.wantBetween("run_at", got.Run, from+1, c.now()+second<<before)
		if !strings.Contains(got.LastError, r.Fail) {
			c.faultf("last_error is %q", got.LastError)
		}
		c.exec("DELETE FROM duetime_tasks WHERE id = ?", id[:]) // its key is free for the next one
	}
}

func checkLastFailure(c *check) {
	id := c.plant(keyed("klast"), attempted(24))
	r := settle(id)
	r.Fail = "out of paper"
	from, want := c.now(), ended(c.row(id), dead, "d"+base64.RawURLEncoding.EncodeToString(id[:])+"last")
	want.Attempt = 25
	c.a.ask(r)
	c.wantRow(id, want, "LastError", "Changed", "Ended")
	c.wantBetween("finished_at", c.row(id).Ended, from, c.now())
	if !strings.Contains(c.row(id).LastError, r.Fail) {
		c.faultf("last_error is %q", c.row(id).LastError)
	}
	c.a.ask(settle(id))
	c.wantEffects(id, 0)
}
