package contract_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// together has processes of all implementations settle the tasks of one schema, while others move and cancel some.
type together struct {
	check

	commands [][]string
	ids      []task.ID

	mu      sync.Mutex
	changes map[task.ID]string // the answers to those that were changed
	changed int                // processes that are through with changes
}

// tasks is their number: enough for the processes to meet.
const tasks = 90

func newTogether(t *testing.T, server *pipelinetest.MySQLServer, implementations map[string][]string) *together {
	t.Helper()
	g := &together{check: check{suite: newSuite(t, server), name: "together", owner: "Zoë"}, changes: map[task.ID]string{}}
	where := g.command // host, port and schema
	for _, command := range implementations {
		g.commands = append(g.commands, append(append([]string{}, command...), where...))
	}
	return g
}

func (g *together) run() {
	for range tasks {
		g.ids = append(g.ids, g.plant())
	}
	var group errgroup.Group
	for i, command := range g.commands {
		for range 2 {
			group.Go(func() error { return g.with(command, g.work) })
		}
		group.Go(func() error { return g.with(command, func(p *process) error { return g.change(p, i) }) })
	}
	pipelinetest.Must(g.t, group.Wait())
	for _, id := range g.ids {
		g.judge(id)
	}
}

// with runs do on a process of its own.
func (g *together) with(command []string, do func(*process) error) error {
	p, err := startProcess(command)
	if err != nil {
		return err
	}
	defer p.kill()
	return do(p)
}

func (p *process) ask(r request) (string, error) {
	if err := p.send(r); err != nil {
		return "", err
	}
	got, err := p.next()
	return got.Answer, err
}

// work settles what looks find until nothing is due any more.
func (g *together) work(p *process) error {
	for g.goesOn() {
		found, err := p.ask(request{Do: "look", Queue: queueName})
		if err != nil {
			return err
		}
		for _, text := range strings.Split(found, ",") {
			if text == "" {
				continue
			}
			id, err := task.ParseID(text)
			if err != nil {
				return err
			}
			if _, err := p.ask(settle(id)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *together) goesOn() bool {
	g.mu.Lock()
	changing := g.changed < len(g.commands)
	g.mu.Unlock()
	return changing || g.number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 0 AND run_at <= "+dbClock) > 0
}

// change cancels some tasks and moves others, the newest first: workers begin with any.
func (g *together) change(p *process, number int) error {
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.changed++
	}()
	for i := len(g.ids) - 1 - number; i >= 0; i -= 2 * len(g.commands) {
		id, r := g.ids[i], request{Do: "cancel", ID: pointer(g.ids[i])}
		if i%3 == 0 {
			r = request{Do: "move", ID: pointer(id), Due: g.now() + hour}
		}
		answer := "locked"
		for answer == "locked" {
			var err error
			if answer, err = p.ask(r); err != nil {
				return err
			}
		}
		g.mu.Lock()
		g.changes[id] = r.Do + ": " + answer
		g.mu.Unlock()
	}
	return nil
}

// judge compares what became of a task with what its changer was told.
func (g *together) judge(id task.ID) {
	got, effects := g.row(id), g.effects(id)
	says := fmt.Sprintf("state %d, version %d, %d effects", got.State, got.Version, effects)
	want := "state 1, version 2, 1 effects"
	switch g.changes[id] {
	case "cancel: yes":
		want = "state 2, version 2, 0 effects"
	case "move: yes":
		want = "state 0, version 2, 0 effects"
	}
	if says != want {
		g.t.Errorf("task %s, told %q: %s, want %s", id, g.changes[id], says, want)
	}
}
