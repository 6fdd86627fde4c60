package contract_test

import (
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// found returns what some looks find together, in order.
func (c *check) found(queue string, looks int) []string {
	var ids []string
	for range looks {
		for _, id := range strings.Split(c.a.ask(request{Do: "look", Queue: queue}), ",") {
			if id != "" && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// maxLooks is after how many looks, at most, each due task must have been found, with some thousands of others before it.
const maxLooks = 6

func checkLook(c *check) {
	const queue = "look"
	var want []string
	for _, due := range []int64{-second, -minute, -hour} {
		want = append(want, c.plant(at(due, due), of(queue, kindName)).String())
	}
	c.plant(at(minute, minute), of(queue, kindName))
	c.plant(at(-hour, minute), of(queue, kindName), attempted(1))
	c.plant(of("other", kindName))
	c.plant(of(queue, "other"))
	c.plant(of(queue, kindName), in(cancelled))
	slices.Sort(want)
	if diff := cmp.Diff(want, c.found(queue, maxLooks)); diff != "" {
		c.faultf("found (-want +got):\n%s", diff)
	}
	c.exec("INSERT INTO duetime_requests (name, made_at) VALUES (?, ?)", "pause:"+queue, c.now())
	if got := c.found(queue, maxLooks); len(got) > 0 {
		c.faultf("%d tasks of a paused queue were found", len(got))
	}
	c.exec("DELETE FROM duetime_requests")
}

// checkLookBehind has thousands of tasks of a queue that nobody works for stand before, and after, those that are ours.
func checkLookBehind(c *check) {
	const queue = "behind"
	for _, due := range []int64{-2 * hour, -second} {
		c.exec(`INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, payload, created_at, updated_at)
			SELECT UNHEX(REPLACE(UUID(), '-', '')), ?, ?, 'others', CRC32(?) MOD shards, at, at, '{}', at, at
			FROM duetime_layout, (SELECT `+dbClock+` + ? AS at) AS clock, `+pipelinetest.Numbers(1, 2500),
			kindName, c.owner, c.owner, due)
	}
	var want []string
	for _, due := range []int64{-hour, -minute} {
		want = append(want, c.plant(at(due, due), of(queue, kindName)).String())
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, c.found(queue, maxLooks)); diff != "" {
		c.faultf("found in %d looks (-want +got):\n%s", maxLooks, diff)
	}
	c.exec("DELETE FROM duetime_tasks WHERE queue = 'others'")
}
