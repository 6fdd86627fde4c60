package protocoltest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	engine "github.com/duetime/duetime/internal/worker"
)

// process is one that runs a worker, with all its goroutines.
type process struct {
	dead   atomic.Bool // no call of it reaches MySQL any more
	cancel context.CancelFunc
	ended  chan struct{}
}

var errDead = errors.New("the process is dead")

// die ends the process in the middle of a handler.
func (p *process) die() error {
	p.dead.Store(true)
	p.cancel()
	return errDead
}

func (p *process) end() {
	p.cancel()
	<-p.ended
}

// start <worker> [late=<duration>] begins to run a worker. It looks for late tasks only if late is given.
func start(s *scene, words []string) {
	plain, named := options(words)
	cfg := engine.Config{Late: -1}
	if named["late"] != "" {
		cfg.Late, _ = time.ParseDuration(named["late"])
	}
	ctx, cancel := context.WithCancel(s.forever)
	p := &process{cancel: cancel, ended: make(chan struct{})}
	w := s.newWorker(cfg, p)
	s.workers[plain[0]] = p
	go func() {
		defer close(p.ended)
		if err := w.Run(ctx); err != nil {
			s.say("%s: %v", plain[0], err)
		}
	}()
	pipelinetest.Must(s.t, w.Joined(s.t.Context()))
	synctest.Wait()
}

// stop <worker> ends it in good order.
func stop(s *scene, words []string) { s.workers[words[0]].end() }

// crash <worker> ends it as if it were killed.
func crash(s *scene, words []string) {
	s.workers[words[0]].dead.Store(true)
	s.workers[words[0]].end()
}

// unread <owner> tells whether the group has committed the offsets of all of the owner's hints.
func unread(s *scene, words []string) {
	b, err := s.log.Backlog(s.t.Context(), "default")
	pipelinetest.Must(s.t, err)
	s.say("%v", !b.Clear(protocol.RouteKey(words[0], 0)))
}
