package demo

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/pet"
)

// goOn lets people play among others, with meals that take long enough to do something meanwhile, and with the page's lessons.
func (s *stage) goOn(ctx context.Context) error {
	s.game.SetRules(pet.Rules{Meal: servedMeal, Speedup: servedSpeedup, Food: 100, SpeedupCards: 10, AutofeedCards: 10})
	if err := s.teach(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(s.cfg.Err, "play at %s/ and look into its tasks at %s%s until you interrupt it\n", s.url, s.url, consolePath)
	group, ctx := errgroup.WithContext(ctx)
	for i := range servedPets {
		p := s.player(s.cfg.Pets + i)
		p.meal, p.name = servedMeal, servedNames[i%len(servedNames)]
		group.Go(func() error { return p.play(ctx) })
	}
	group.Go(func() error { return s.die(ctx) })
	return group.Wait()
}

// servedNames are those of the pets beside which people play.
var servedNames = []string{"momo", "tofu", "kiki", "nugget", "小猫", "waffle", "olive", "pixel", "luna", "gizmo"}

func (s *stage) teach() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.teaches = true
	return s.show()
}

const workerName = "worker-1"

func (s *stage) workers() []pet.Worker {
	return []pet.Worker{{Name: workerName, Alive: s.alive.Load()}}
}

// kill has the worker die. It returns before, because a pipeline is closed only while no request is served.
func (s *stage) kill(context.Context) (string, error) {
	if !s.alive.CompareAndSwap(true, false) {
		return "", nil
	}
	s.kills <- struct{}{}
	return workerName, nil
}

// die carries out the lessons that kill the worker, until ctx ends.
func (s *stage) die(ctx context.Context) error {
	for {
		select {
		case <-s.kills:
		case <-ctx.Done():
			return nil
		}
		if err := s.dropWorker(ctx); err != nil {
			return err
		}
		if !sleep(ctx, killedFor) {
			return nil
		}
		s.work(ctx)
	}
}

// dropWorker ends the pipeline without waiting for the worker, whose transactions lose their database. Another pipeline on
// the file takes players' calls, without a worker.
func (s *stage) dropWorker(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	dead, now := context.WithCancel(ctx)
	now()
	_ = s.pipeline.Close(dead) // it says that it was not waited for
	return s.open(ctx)
}
