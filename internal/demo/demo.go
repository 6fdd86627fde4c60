// Package demo plays the pet game on the embedded pipeline, restarts that meanwhile, and reports whether the promises held. It
// needs only the binary.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite" // the database of the demo

	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/process"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/consoleweb"
	"github.com/duetime/duetime/pkg/embedded"
)

// Config sets the game's length and size.
type Config struct {
	For   time.Duration // how long to play; at least 10 s, default 30 s
	Pets  int           // default 200
	Meal  time.Duration // how long a meal takes; default 3 s
	Serve bool          // go on after the report with longer meals and lessons, for people to play, until ctx ends
	Out   io.Writer     // the report
	Err   io.Writer     // progress
	JSON  bool          // the report's last line is one JSON object
}

// Limits of Config's values.
const (
	minFor  = 10 * time.Second
	maxPets = 5000
	minMeal = 100 * time.Millisecond
)

// Validate refuses values that can't be played, naming the flag and the limit.
func (c Config) Validate() error {
	switch {
	case c.For < minFor || c.For > time.Hour:
		return fmt.Errorf("--for: %v is not between %v and 1h", c.For, minFor)
	case c.Pets < 1 || c.Pets > maxPets:
		return fmt.Errorf("--pets: %d is not between 1 and %d", c.Pets, maxPets)
	case c.Meal < minMeal || c.Meal > c.For/3:
		return fmt.Errorf("--meal: %v is not between %v and a third of --for (%v)", c.Meal, minMeal, c.For/3)
	}
	return nil
}

// ErrBroken says that the report shows a broken promise.
var ErrBroken = errors.New("a promise was broken")

// maxHealTime is how long after the game the faults may take to heal.
const maxHealTime = 30 * time.Second

// mealSlack is how long after the game the last meals may take beyond their length.
const mealSlack = 5 * time.Second

// stage is everything that a demo has open.
type stage struct {
	cfg    Config
	file   string
	rows   *store.Store // another handle on the file: it outlives the pipeline
	game   *pet.Game
	url    string
	counts *counts

	mu       sync.RWMutex // held for reading by each request, so that a restart makes none fail
	pipeline *embedded.Pipeline
	site     http.Handler // of the pipeline
	failed   chan error   // of Work

	teaches bool          // the page has its lessons
	alive   atomic.Bool   // the worker
	kills   chan struct{} // lessons that kill the worker
}

// Rules of the game that people play after the report, how many pets others keep feeding beside theirs, and how long a worker
// that was killed stays away.
const (
	servedMeal    = time.Minute
	servedSpeedup = 20 * time.Second
	servedPets    = 30
	killedFor     = 4 * time.Second
)

// Run plays and reports. It returns ErrBroken if a promise was broken, and another error if it could not play.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "duetime-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the demo: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s := &stage{cfg: cfg, file: filepath.Join(dir, "demo.db"), counts: &counts{}, failed: make(chan error, 1), kills: make(chan struct{}, 1)}
	if s.rows, err = store.OpenSQLite(s.file); err != nil {
		return err
	}
	s.game = pet.NewGame(pet.Rules{
		Meal: cfg.Meal, Speedup: cfg.Meal / 3, Food: 1000, SpeedupCards: 1000, AutofeedCards: 1000,
	})
	return errors.Join(s.run(ctx), s.rows.Close())
}

// run plays until it has reported.
func (s *stage) run(ctx context.Context) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	defer func() { _ = s.pipeline.Close(context.WithoutCancel(ctx)) }()
	if err := pet.CreateTables(ctx, s.rows.DB()); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	if err := s.serve(ctx, group); err != nil {
		return err
	}
	group.Go(func() error {
		select {
		case err := <-s.failed:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	group.Go(func() error {
		defer stop()
		return s.playAndReport(ctx)
	})
	return group.Wait()
}

// start opens the pipeline and its worker.
func (s *stage) start(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	s.work(ctx)
	return nil
}

// open opens the pipeline, the game's API and the console.
func (s *stage) open(ctx context.Context) error {
	p, err := embedded.OpenSQLite(ctx, s.file, embedded.Config{Logger: quiet, Handlers: s.game.Handlers()})
	if err != nil {
		return err
	}
	s.pipeline = p
	if err := s.show(); err != nil {
		return errors.Join(err, p.Close(ctx))
	}
	return nil
}

var quiet = slog.New(slog.DiscardHandler)

// show makes the pages of the pipeline.
func (s *stage) show() error {
	pages, err := consoleweb.Handler(s.pipeline.Console(), consoleweb.Config{Open: "demo@console", Logger: quiet})
	if err != nil {
		return err
	}
	api := pet.NewAPI(s.game, s.pipeline.Client, s.pipeline, quiet)
	lessons := pet.Lessons{}
	if s.teaches {
		lessons.Workers, lessons.Kill = s.workers, s.kill
	}
	api.Teach(s.rows.DB(), auditRetention, lessons)
	mux := http.NewServeMux()
	mux.Handle("/", pet.Site(api, consolePath[1:]))
	mux.Handle(consolePath, http.StripPrefix(strings.TrimSuffix(consolePath, "/"), pages))
	s.site = mux
	return nil
}

// work runs the pipeline's worker until the pipeline is closed.
func (s *stage) work(ctx context.Context) {
	p := s.pipeline
	s.alive.Store(true)
	go func() {
		err := p.Work(context.WithoutCancel(ctx), s.game.Handlers())
		s.mu.RLock()
		defer s.mu.RUnlock()
		if err != nil && p == s.pipeline {
			s.failed <- err
		}
	}()
}

// restart ends the pipeline, and opens another one on its file.
func (s *stage) restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.pipeline.Close(ctx), s.start(ctx))
}

// ServeHTTP answers by the pipeline that runs.
func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.site.ServeHTTP(w, r)
}

// consolePath is where the console's pages stand beside the game's API.
const consolePath = "/console/"

// serve puts the pages on a loopback port.
func (s *stage) serve(ctx context.Context, group *errgroup.Group) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serve the game: %w", err)
	}
	s.url = "http://" + listener.Addr().String()
	server := process.NewServer(s)
	group.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return nil
}

// playAndReport plays, waits for the last meals, reports, and goes on serving if asked to.
func (s *stage) playAndReport(ctx context.Context) error {
	_, _ = fmt.Fprintf(s.cfg.Err, "%d pets eat for %v each: watch them at %s/ and their tasks at %s%s\n",
		s.cfg.Pets, s.cfg.Meal, s.url, s.url, consolePath)
	faults, err := s.play(ctx)
	if err != nil {
		return err
	}
	r, err := s.report(ctx, faults)
	if err != nil {
		return err
	}
	if err := r.write(s.cfg.Out, s.cfg.JSON); err != nil {
		return err
	}
	if s.cfg.Serve {
		if err := s.goOn(ctx); err != nil {
			return err
		}
	}
	switch {
	case r.broken():
		return ErrBroken
	case len(faults) < restarts:
		return fmt.Errorf("%w: tasks were late until the end, and %d of %d restarts were seen to heal", ErrBroken, len(faults), restarts)
	}
	return nil
}

// play runs the players for the configured time, or longer if a fault takes longer to heal. Then it waits until the last
// meals are eaten.
func (s *stage) play(ctx context.Context) ([]fault, error) {
	playing, stop := context.WithCancel(ctx)
	defer stop()
	breaking, cancel := context.WithTimeout(ctx, s.cfg.For+maxHealTime)
	defer cancel()
	var faults []fault
	group, playing := errgroup.WithContext(playing)
	for i := range s.cfg.Pets {
		group.Go(func() error { return s.player(i).play(playing) })
	}
	group.Go(func() (err error) {
		defer stop()
		end := time.After(s.cfg.For)
		if faults, err = s.injectFaults(breaking); err != nil {
			return err
		}
		select {
		case <-end:
		case <-playing.Done():
		}
		return nil
	})
	group.Go(func() error { return s.progress(playing) })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return faults, s.awaitMeals(ctx)
}

// awaitMeals waits until nothing is pending. It waits for two meals: an armed card starts another one.
func (s *stage) awaitMeals(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*s.cfg.Meal+mealSlack)
	defer cancel()
	for {
		// A negative age counts tasks that are due in the future too.
		n, err := s.rows.Overdue(ctx, -100*365*24*time.Hour)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if n == 0 && err == nil || !sleep(ctx, 50*time.Millisecond) {
			return nil // the report shows what is still pending
		}
	}
}

// sleep returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
