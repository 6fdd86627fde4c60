package witness

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

const (
	playInterval  = 1600 * time.Millisecond // between the begins of two plays: with their steps about one call a second
	passInterval  = 20 * time.Millisecond   // a step is late by so much at most
	judgeInterval = time.Second
	verdictDelay  = 4 * time.Second  // from a play's last due time to its verdict: a second effect needs time too
	lostAfter     = 30 * time.Second // a task that is free and due for so long, while others took effect, is lost
	livelyFor     = 6 * time.Second  // after an effect the world counts as at work
	lateFor       = 10 * time.Minute // after a verdict a further effect is seen for so long
	givenUpAfter  = 30 * time.Minute // a play that still waits then gets no verdict
	forgotten     = time.Hour        // effects of unknown plays are deleted then; longer than givenUpAfter
	maxOpen       = 40               // plays: so many wait where nobody runs tasks
	callTimeout   = 5 * time.Second
)

// Store is what the witness needs of MySQL. internal/store says more.
type Store interface {
	SaveVerdict(ctx context.Context, play task.ID, faults string) error
	Effects(ctx context.Context) (now time.Time, effects []effect, err error)
	LockFree(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, time.Time, error)
	Entries(ctx context.Context, ids []task.ID) ([]task.Task, error)
	ForgetWitnessed(ctx context.Context, effects []int64, now time.Time, retention time.Duration) error
}

// Index is what the witness needs of Redis: to have a task hinted at once more.
type Index interface {
	Put(ctx context.Context, tasks []task.Task) error
}

// Config is what a witness needs to know.
type Config struct {
	Now       func() time.Time // the database's clock
	Retention time.Duration    // of plays with a fault
	Logger    *slog.Logger
	Metrics   prometheus.Registerer // nil: none
}

// Witness plays and judges in the daemon that leads.
type Witness struct {
	cfg     Config
	store   Store
	client  *schedule.Client
	index   Index
	metrics *metrics
	term
}

// term is what a witness remembers from when it begins to lead.
type term struct {
	epoch  int64
	open   []*play   // without a verdict
	over   []*play   // with a verdict
	begun  int       // plays so far
	next   time.Time // when the next play begins
	judged time.Time // when the judge was at work last
	effect time.Time // the newest that was seen
}

// New makes a witness. Its client must neither have hooks nor refuse the witness's queue.
func New(cfg Config, store Store, client *schedule.Client, index Index) *Witness {
	return &Witness{cfg: cfg, store: store, client: client, index: index, metrics: newMetrics(cfg.Metrics)}
}

func (w *Witness) now() time.Time { return w.cfg.Now() }

// Lead plays and judges until ctx ends. It never returns an error: a witness that can't work ends no daemon's term.
func (w *Witness) Lead(ctx context.Context, epoch int64) {
	w.term = term{epoch: epoch}
	_ = loop.Run(ctx, loop.Config{Name: "witness", Logger: w.cfg.Logger}, w.pass) // it ends with ctx alone
}

// pass begins a play, takes the steps that are due, and judges.
func (w *Witness) pass(ctx context.Context) (loop.Result, error) {
	if now := w.now(); !now.Before(w.next) && len(w.open) < maxOpen {
		w.next = now.Add(playInterval)
		w.beginPlay(now)
	}
	w.takeSteps(ctx)
	if w.now().Sub(w.judged).Abs() < judgeInterval {
		return loop.Result{Next: passInterval}, nil
	}
	return loop.Result{Next: passInterval}, w.judge(ctx)
}

// beginPlay plans the next play.
func (w *Witness) beginPlay(now time.Time) {
	kind := plays[w.begun%len(plays)]
	w.begun++
	if kind.name == tickPlay && slices.ContainsFunc(w.open, func(p *play) bool { return p.Name == tickPlay }) {
		return // its recurrence is at work
	}
	p := &play{id: task.NewID(), begun: now.Truncate(time.Millisecond), Name: kind.name, Owner: witnessOwner(w.begun)}
	kind.plan(w, p)
	w.open = append(w.open, p)
}

// takeSteps takes the steps that are due.
func (w *Witness) takeSteps(ctx context.Context) {
	for _, p := range slices.Clone(w.open) {
		for len(p.steps) > 0 && !w.now().Before(p.steps[0].at) {
			do := p.steps[0].do
			p.steps = p.steps[1:]
			do(ctx)
		}
	}
}

// drop ends a play without a verdict.
func (w *Witness) drop(p *play) {
	p.steps = nil
	w.open = slices.DeleteFunc(w.open, func(other *play) bool { return other == p })
}

// report counts and logs faults of a play.
func (w *Witness) report(ctx context.Context, p *play, faults ...string) {
	for _, f := range faults {
		w.metrics.faults.WithLabelValues(f).Inc()
	}
	text, _ := json.Marshal(p)
	w.cfg.Logger.ErrorContext(ctx, "a promise was broken", slog.String("what", strings.Join(faults, ",")), slog.Any("err", fmt.Errorf("play %s: %s", p.id, text)))
}
