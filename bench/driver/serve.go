package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/duetime/duetime/bench/protocol"
	"github.com/duetime/duetime/bench/queue"
)

// server carries requests out on one queue.
type server struct {
	queue   queue.Queue
	env     queue.Env
	db      *sql.DB
	effects *queue.Effects // nil until the work began
	settled *settled       // nil if the handlers' own count is the truth
	stop    context.CancelFunc
	working sync.WaitGroup
	failed  atomic.Pointer[error] // why the work has ended
}

func newServer(q queue.Queue, env queue.Env) (*server, error) {
	s := &server{queue: q, env: env}
	if env.MySQL == "" {
		return s, nil
	}
	db, err := sql.Open("mysql", env.MySQL)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", "mysql", err)
	}
	db.SetMaxOpenConns(env.Workers)
	db.SetMaxIdleConns(env.Workers)
	s.db = db
	return s, nil
}

// serve answers until it is told to stop or nobody asks any more.
func (s *server) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	enc := json.NewEncoder(out)
	if err := enc.Encode(protocol.Response{}); err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var r protocol.Request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		answer, err := s.answer(ctx, r)
		if err != nil {
			answer.Error = err.Error()
		}
		if err := enc.Encode(answer); err != nil {
			return err
		}
		if r.Op == "stop" {
			return nil
		}
	}
	return nil
}

func (s *server) answer(ctx context.Context, r protocol.Request) (protocol.Response, error) {
	switch r.Op {
	case "schedule":
		return s.schedule(ctx, r)
	case "accept":
		return s.accept(ctx, r)
	case "move":
		return s.move(ctx, r)
	case "moveowner":
		return s.moveOwner(ctx, r)
	case "read":
		return s.read(ctx, r)
	case "work":
		s.work(ctx, r.Effect)
		return protocol.Response{}, nil
	case "seen":
		return s.seen(r)
	case "marks":
		return s.marks(r)
	case "stop":
		return protocol.Response{}, s.close()
	default:
		return protocol.Response{}, fmt.Errorf("unknown request %q", r.Op)
	}
}

func (s *server) work(ctx context.Context, effect bool) {
	var db *sql.DB
	if effect {
		db = s.db
	}
	s.effects = queue.NewEffects(db)
	ctx, s.stop = context.WithCancel(ctx)
	s.working.Go(func() {
		if err := s.queue.Work(ctx, s.effects); err != nil {
			fmt.Fprintln(os.Stderr, "driver: work:", err)
			s.failed.Store(&err)
		}
	})
	if q, ok := s.queue.(queue.Settler); ok {
		s.settled = &settled{queue: q}
		s.working.Go(func() { s.settled.watch(ctx, s.effects) })
	}
}

var errNoWork = errors.New("the work has not begun")

func (s *server) seen(ask protocol.Request) (protocol.Response, error) {
	if s.effects == nil {
		return protocol.Response{}, errNoWork
	}
	var r protocol.Response
	r.Started, r.Done, r.Last = s.effects.Seen()
	if s.settled != nil {
		r.Done, r.Last = s.settled.count.Load(), s.settled.last.Load()
	}
	if l, ok := s.queue.(queue.Lagger); ok && ask.Lag {
		r.Lag = buckets(l.Lags())
	}
	return r, s.failure()
}

// failure is why the work has ended before it was told to.
func (s *server) failure() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// buckets puts a histogram in order. JSON knows no infinity.
func buckets(lags map[float64]uint64) []protocol.Bucket {
	all := make([]protocol.Bucket, 0, len(lags))
	for within, n := range lags {
		all = append(all, protocol.Bucket{Within: min(within, math.MaxFloat64), Count: n})
	}
	slices.SortFunc(all, func(a, b protocol.Bucket) int {
		if a.Within < b.Within {
			return -1
		}
		return 1
	})
	return all
}

func (s *server) marks(r protocol.Request) (protocol.Response, error) {
	if s.effects == nil {
		return protocol.Response{}, errNoWork
	}
	marks := slices.DeleteFunc(s.effects.Marks(), func(m queue.Mark) bool {
		return r.Count > 0 && (m.ID < r.First || m.ID >= r.First+r.Count)
	})
	return protocol.Response{Marks: marks}, nil
}

func (s *server) close() error {
	if s.stop != nil {
		s.stop()
		s.working.Wait()
	}
	return errors.Join(s.failure(), s.queue.Close())
}
