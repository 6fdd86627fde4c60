package protocoltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

var (
	oneWait = task.Retry(task.Backoff{Min: time.Millisecond, Max: time.Millisecond}) // no jitter: a script says each time
	meal    = task.NewKind[string]("meal", task.MaxAttempts(3), oneWait)
	mail    = task.NewKind[string]("mail", task.MaxAttempts(3), oneWait)
	herd    = task.NewKind[string]("herd", task.MaxAttempts(3), oneWait)
	poor    = task.NewKind[string]("poor", task.MaxAttempts(3), oneWait, task.Queue("bad"))
	brief   = task.NewKind[string]("brief", task.MaxAttempts(3), oneWait, task.CatchUpWindow(10*time.Second))
	once    = task.NewKind[string]("once", task.MaxAttempts(1), oneWait)
	nobodys = task.NewKind[string]("nobodys") // no worker has a handler for it
	kinds   = []task.Kind[string]{meal, mail, herd, poor, brief, once, nobodys}
)

// newWorker makes a worker whose handlers do what the script says.
func (s *scene) newWorker(cfg engine.Config, p *process) *engine.Worker {
	mux := worker.NewMux()
	handle := func(ctx context.Context, tx *worker.Tx, t worker.Task[string]) error {
		if s.scripted[t.Payload] == "die" {
			return p.die()
		}
		return s.handle(ctx, tx, t)
	}
	for _, kind := range []task.Kind[string]{meal, poor, brief, once} {
		worker.Handle(mux, kind, handle)
	}
	worker.HandleOutside(mux, mail, func(ctx context.Context, t worker.Task[string]) error {
		s.say("%s is sent", t.Payload)
		return s.act(ctx, nil, t)
	})
	worker.HandleBatch(mux, herd, func(ctx context.Context, tx *worker.Tx, ts []worker.Task[string]) error {
		var called []string
		for _, t := range ts {
			called = append(called, t.Payload)
		}
		s.say("called with %s", strings.Join(called, " "))
		for _, t := range ts {
			if err := s.handle(ctx, tx, t); err != nil {
				return err
			}
		}
		return nil
	})
	cfg.BatchTime = time.Second
	w, err := engine.New(cfg, mux, wiredStore{s.store, s, p}, s.log, worldtest.Direct{Index: s.index}, grave{s})
	pipelinetest.Must(s.t, err)
	return w
}

// grave takes dead letters, and tells.
type grave struct{ s *scene }

func (g grave) Bury(_ context.Context, letters []protocol.DeadLetter) error {
	for _, l := range letters {
		g.s.say("buried %s: %s", g.s.names[l.ID], l.Error)
	}
	return nil
}

// handle has an effect, and then does what the script says.
func (s *scene) handle(ctx context.Context, tx *worker.Tx, t worker.Task[string]) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO effects (task_id, tones, due_ms, at_ms) VALUES (?, 0, 0, ?)`,
		t.ID.String(), now.UnixMilli()); err != nil {
		return err
	}
	return s.act(ctx, tx, t)
}

var errSick = errors.New("sick")

// act does what the script says that a task's handler does: a list, divided by semicolons.
func (s *scene) act(ctx context.Context, tx *worker.Tx, t worker.Task[string]) (err error) {
	for act := range strings.SplitSeq(s.scripted[t.Payload], ";") {
		words := strings.Fields(act)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "fail":
			return errSick
		case "discard":
			return worker.Discard(errSick)
		case "snooze":
			d, err := time.ParseDuration(words[1])
			pipelinetest.Must(s.t, err)
			return worker.Snooze(d)
		case "panic":
			panic("scripted")
		case "sleep":
			d, err := time.ParseDuration(words[1])
			pipelinetest.Must(s.t, err)
			time.Sleep(d)
		case "cancel":
			_, err = tx.Cancel(ctx, s.ids[words[1]])
		case "move":
			_, err = tx.Reschedule(ctx, s.ids[words[1]], task.At(s.moment(words[2])))
		case "look":
			var n int
			pipelinetest.Must(s.t, s.store.DB().GetContext(ctx, &n, "SELECT COUNT(*) FROM effects"))
			s.say("%s: others see %d effects", t.Payload, n)
			continue
		case "sql":
			if _, err = tx.ExecContext(ctx, strings.Join(words[1:], " ")); err != nil {
				return err
			}
		case "schedule":
			spec := s.nextSpec(func() task.Spec { return meal.New("ann", words[1], task.At(s.moment(words[2]))) })
			s.name(words[1], spec.ID())
			_, err = tx.Schedule(ctx, spec)
		}
		answer := "yes"
		if err != nil {
			answer = s.plain(err)
		}
		s.say("%s: %s: %s", t.Payload, strings.TrimSpace(act), answer)
	}
	return nil
}

// handler <task> <act>; ... says what the task's handler does besides its effect.
func handler(s *scene, words []string) { s.scripted[words[0]] = strings.Join(words[1:], " ") }

// settle takes the unread hints through the worker once; settle again takes those of the last time.
func settle(s *scene, words []string) {
	if len(words) == 0 {
		s.read = s.takeAll()
	}
	outs, err := s.worker.Pass(s.t.Context(), s.read)
	for _, o := range outs {
		text := s.names[o.ID]
		if o.Result != "" {
			text += " " + o.Result
		}
		if !o.Settled {
			text += ", held"
		}
		s.say("%s", text)
	}
	if err != nil {
		s.say("%s", s.plain(err))
	}
}

// lock <task> and unlock <task> make somebody else hold its row.
func lock(s *scene, words []string) { s.held[s.ids[words[0]]] = !s.held[s.ids[words[0]]] }

// pause <queue> and resume <queue> are what an operator does.
func pause(s *scene, words []string) {
	queue := words[0]
	paused, err := s.store.Paused(s.t.Context())
	pipelinetest.Must(s.t, err)
	if _, is := paused[queue]; is {
		_, err = s.store.Resume(s.t.Context(), s.store.DB(), queue)
	} else {
		_, err = s.store.Pause(s.t.Context(), s.store.DB(), queue, time.Now(), time.Time{})
	}
	pipelinetest.Must(s.t, err)
}

// all returns the names of the tasks in the order of their ids.
func (s *scene) all() []string {
	var names []string
	for name := range s.ids {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return s.ids[a].Compare(s.ids[b]) })
	return names
}

// rows tells what the table says.
func rows(s *scene, _ []string) {
	for _, name := range s.all() {
		found, err := s.store.Get(s.t.Context(), nil, []task.ID{s.ids[name]})
		pipelinetest.Must(s.t, err)
		for _, row := range found {
			s.say("%s", s.row(row))
		}
	}
}

// standing tells what the index holds: of each entry whether it stands in the due set, its owner's set, or both.
func standing(s *scene, _ []string) {
	said := map[string][]string{}
	for shard := range s.shards {
		for i, entries := range s.entries(shard) {
			for _, e := range entries {
				text := fmt.Sprintf("v%d %s", e.Score.Version(), s.since(e.Score.RunAt()))
				place := []string{"due", "owner"}[i]
				if home := s.versions[s.names[e.ID]+" "]; home.Shard != shard || home.Queue != e.Queue {
					place = "astray " + place
				}
				said[s.names[e.ID]] = append(said[s.names[e.ID]], place+" "+text)
			}
		}
	}
	for _, name := range s.all() {
		if len(said[name]) > 0 {
			s.say("%s %s", name, strings.Join(said[name], ", "))
		}
	}
}

// markers tells which shards have their memory.
func markers(s *scene, _ []string) {
	stand, err := s.index.Marked(s.t.Context(), s.shards)
	pipelinetest.Must(s.t, err)
	s.say("%v", stand)
}

// effects [<task> ...] tells which effects were committed, and when: of these tasks, or of all. When looks find a task is random.
func effects(s *scene, words []string) {
	var found []struct {
		ID string `db:"task_id"`
		At int64  `db:"at_ms"`
	}
	pipelinetest.Must(s.t, s.store.DB().SelectContext(s.t.Context(), &found, `SELECT task_id, at_ms FROM effects ORDER BY rowid`))
	for _, e := range found {
		id, err := task.ParseID(e.ID)
		pipelinetest.Must(s.t, err)
		if name := s.names[id]; len(words) == 0 || slices.Contains(words, name) {
			s.say("%s %s", name, s.since(time.UnixMilli(e.At)))
		}
	}
}
