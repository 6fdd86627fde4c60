package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// chaos is a history of writers whose puts are lost, late, or never committed, with the real SQL and the real scripts.
type chaos struct {
	t    *testing.T
	w    *world
	rows []task.Task // as last committed
	late []task.Task // puts under way
}

// change commits the next version of some pending row and sends its put.
func (c *chaos) change(r *rapid.T, next func(one task.Task) task.Task) {
	if len(c.rows) == 0 {
		return
	}
	i := rapid.IntRange(0, len(c.rows)-1).Draw(r, "row")
	if c.rows[i].State != task.Pending {
		return
	}
	c.rows[i] = c.w.save(c.t, next(c.rows[i]))
	c.send(r, c.rows[i])
}

// send puts a version at once, later, or never.
func (c *chaos) send(r *rapid.T, one task.Task) {
	switch rapid.SampledFrom([]string{"now", "late", "lost"}).Draw(r, "put") {
	case "now":
		c.w.put(c.t, one)
	case "late":
		c.late = append(c.late, one)
	}
}

func (c *chaos) due(r *rapid.T) time.Duration {
	// No row is due in the past or while its hint may be under way: the sweeps don't put such rows.
	return time.Duration(rapid.IntRange(100, 10_000).Draw(r, "due")) * time.Second
}

func (c *chaos) actions() map[string]func(*rapid.T) {
	w := c.w
	return map[string]func(*rapid.T){
		"schedule": func(r *rapid.T) {
			owner := fmt.Sprint("owner", rapid.IntRange(0, 3).Draw(r, "owner"))
			one := pending(owner, c.due(r))
			one.UpdatedAt = w.now
			one = w.insert(c.t, one)[0]
			c.rows = append(c.rows, one)
			c.send(r, one)
		},
		"reschedule": func(r *rapid.T) {
			c.change(r, func(one task.Task) task.Task { return w.moved(c.t, one, c.due(r)) })
		},
		"cancel": func(r *rapid.T) {
			c.change(r, func(one task.Task) task.Task { return w.cancelled(c.t, one) })
		},
		"finish": func(r *rapid.T) {
			c.change(r, func(one task.Task) task.Task { return transition.Finish(one, w.now) })
		},
		"late put": func(*rapid.T) {
			if len(c.late) > 0 {
				w.put(c.t, c.late[0])
				c.late = c.late[1:]
			}
		},
		"phantom of a rollback": func(r *rapid.T) {
			if len(c.rows) > 0 && c.rows[len(c.rows)-1].State == task.Pending {
				w.put(c.t, w.moved(c.t, c.rows[len(c.rows)-1], c.due(r)))
			}
			w.put(c.t, pending("owner1", c.due(r)))
		},
		"flush": func(*rapid.T) { w.flush(c.t) },
		"rebuild": func(*rapid.T) {
			w.run(c.t, new(rebuild).pass)
		},
		"time": func(*rapid.T) { w.now = w.now.Add(time.Second) },
	}
}

// After whatever writers, flushes and lost puts have done, one round of the passes makes both sets equal the rows.
func TestPassesMakeTheSetsEqualTheRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	rapid.Check(t, func(r *rapid.T) {
		w.flush(t)
		_, err := w.rows.DB().Exec("DELETE FROM duetime_tasks")
		pipelinetest.Must(t, err)
		w.now = base
		c := &chaos{t: t, w: w}
		r.Repeat(c.actions())
		for _, one := range c.late {
			w.put(t, one)
		}
		w.now = w.now.Add(2 * time.Second)
		passes := slices.DeleteFunc(w.passes(), func(p pass) bool { return p.name == "purge" })
		for _, p := range rapid.Permutation(passes).Draw(r, "order") {
			w.run(t, p.run)
		}
		if want, got := w.truth(t), w.members(t); !maps.Equal(want, got) {
			r.Errorf("the sets hold %v, want %v", got, want)
		}
	})
}
