package contract_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/duetimetest"
	"github.com/duetime/duetime/pkg/task"
)

// suite runs the checks against one implementation, in a schema of its own.
type suite struct {
	t       *testing.T // for what must not fail: the suite's own statements
	db      *sql.DB
	command []string // starts an adapter
	running []*process
	faults  map[string][]string // by check
}

func newSuite(t *testing.T, server *pipelinetest.MySQLServer, command ...string) *suite {
	t.Helper()
	dsn := server.NewSchema(t)
	cfg, err := mysql.ParseDSN(dsn)
	pipelinetest.Must(t, err)
	host, port, err := net.SplitHostPort(cfg.Addr)
	pipelinetest.Must(t, err)
	db, err := sql.Open("mysql", dsn)
	pipelinetest.Must(t, err)
	s := &suite{t: t, db: db, command: append(slices.Clone(command), host, port, cfg.DBName), faults: map[string][]string{}}
	t.Cleanup(func() {
		s.killAll()
		_ = db.Close()
	})
	duetimetest.Migrate(t, db)
	s.exec("CREATE TABLE contract_effects (task BINARY(16) NOT NULL, KEY (task))")
	s.exec("CREATE TABLE contract_totals (owner VARCHAR(64) NOT NULL PRIMARY KEY, n INT NOT NULL)")
	s.exec("CREATE TABLE contract_weights (n INT NOT NULL PRIMARY KEY)")
	return s
}

// check is one run of a check.
type check struct {
	*suite

	name  string
	a, b  *adapter // two processes of the implementation
	owner string   // of the check's tasks
}

// checks are all that an implementation must pass, by the name under which faults are told.
var checks = []struct {
	name string
	run  func(c *check)
}{
	{"schedule", checkSchedule},
	{"schedule with the caller's transaction", checkScheduleCrash},
	{"schedule once", checkScheduleOnce},
	{"move", checkMove},
	{"cancel", checkCancel},
	{"change what has ended", checkEnded},
	{"change a stale version", checkStale},
	{"settle", checkDone},
	{"settle early", checkEarly},
	{"settle what has ended", checkSettleEnded},
	{"settle twice at once", checkTwice},
	{"cancel while settling", checkCancelWhileSettling},
	{"move while settling", checkMoveWhileSettling},
	{"settle while cancelling", checkSettleWhileCancelling},
	{"settle while moving", checkSettleWhileMoving},
	{"crash while settling", checkCrash},
	{"crash while cancelling", checkCancelCrash},
	{"effect moves its task", checkOwnMove},
	{"failure", checkFailure},
	{"last failure", checkLastFailure},
	{"transaction lost in the effect", checkLostTransaction},
	{"task of a recurrence", checkRecurrence},
	{"look", checkLook},
	{"look behind others' tasks", checkLookBehind},
}

// judge runs all checks, and returns the names of those that found a fault.
func (s *suite) judge() []string {
	var failed []string
	for i, each := range checks {
		c := &check{suite: s, name: each.name, owner: fmt.Sprintf("Zoë-%d", i)}
		c.run(each.run)
		if len(s.faults[each.name]) > 0 {
			failed = append(failed, each.name)
		}
	}
	return failed
}

// story tells the faults.
func (s *suite) story() string {
	var b strings.Builder
	for _, each := range checks {
		for _, fault := range s.faults[each.name] {
			fmt.Fprintf(&b, "%s: %s\n", each.name, fault)
		}
	}
	return b.String()
}

// broken ends a check whose adapter does not answer.
type broken struct{}

// run runs the check on two processes. Those of the check before are taken if they live and stand at no point.
func (c *check) run(do func(*check)) {
	defer func() {
		if r := recover(); r != nil {
			if _, ours := r.(broken); !ours {
				panic(r)
			}
			c.killAll() // their transactions end too
		}
	}()
	c.a, c.b = c.adapter(0), c.adapter(1)
	do(c)
	for _, a := range []*adapter{c.a, c.b} {
		if a.busy {
			c.faultf("it is still at work")
			a.kill()
		}
	}
}

func (c *check) faultf(format string, args ...any) {
	c.faults[c.name] = append(c.faults[c.name], fmt.Sprintf(format, args...))
}

// adapter is a process in a check.
type adapter struct {
	*process

	c    *check
	seat int
	busy bool // it owes an answer
}

// adapter returns the process of a seat, started if there is none.
func (c *check) adapter(seat int) *adapter {
	for len(c.running) <= seat {
		c.running = append(c.running, nil)
	}
	if c.running[seat] == nil {
		p, err := startProcess(c.command)
		pipelinetest.Must(c.t, err)
		c.running[seat] = p
	}
	return &adapter{process: c.running[seat], c: c, seat: seat}
}

func (s *suite) killAll() {
	for i, p := range s.running {
		if p != nil {
			p.kill()
			s.running[i] = nil
		}
	}
}

// kill crashes the process. The seat has another one then.
func (a *adapter) kill() {
	a.process.kill()
	a.c.running[a.seat] = nil
	*a = *a.c.adapter(a.seat)
}

// begin sends a request and does not wait for its answer.
func (a *adapter) begin(r request) {
	a.busy = true
	a.must(a.send(r))
}

// ask sends a request and returns the answer.
func (a *adapter) ask(r request) string {
	a.begin(r)
	return a.answer()
}

// stopAt sends a request that stops at a point, and returns when it stands there.
func (a *adapter) stopAt(point string, r request) {
	r.Stops = []string{point}
	a.begin(r)
	got, err := a.next()
	a.must(err)
	if got.At != point {
		a.busy = false
		a.c.faultf("%s answers %q, and does not get to its %s", r.Do, got.Answer, point)
		panic(broken{})
	}
}

// goOn lets a process go on that stands at a point, and returns its answer.
func (a *adapter) goOn() string {
	a.must(a.send("go on"))
	return a.answer()
}

func (a *adapter) answer() string {
	got, err := a.next()
	a.must(err)
	if got.At != "" {
		a.c.faultf("it stops at %s, unasked", got.At)
		panic(broken{})
	}
	a.busy = false
	return got.Answer
}

func (a *adapter) must(err error) {
	if err != nil {
		a.c.faultf("%v", err)
		panic(broken{})
	}
}

// waitsOrAnswers returns once the process waits for a lock, or has written a line.
func (a *adapter) waitsOrAnswers() {
	pipelinetest.Await(a.c.t, "a lock wait or an answer", func() bool {
		return len(a.lines) > 0 || pipelinetest.LockWaits(a.c.t, a.c.db) > 0
	})
}

func (s *suite) exec(query string, args ...any) {
	s.t.Helper()
	_, err := s.db.ExecContext(context.WithoutCancel(s.t.Context()), query, args...)
	pipelinetest.Must(s.t, err)
}

func (s *suite) number(query string, args ...any) (n int64) {
	s.t.Helper()
	pipelinetest.Must(s.t, s.db.QueryRowContext(s.t.Context(), query, args...).Scan(&n))
	return n
}

func pointer(id task.ID) *task.ID { return &id }
