package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
)

// ProcessAlive is how long after its last report a process counts as alive: it may miss two.
const ProcessAlive = 15 * time.Second

const (
	processListed = time.Hour          // a process that is silent for longer is listed no more
	processKept   = 7 * 24 * time.Hour // rows of processes that ended: ended tasks name their worker, and versions have a first start
)

// Process is a running program of the deployment, as it last reported itself.
type Process struct {
	ID      string // of this run
	Role    string // event, daemon, worker, api, console or embedded
	Host    string
	Version string
	Started time.Time // on the database's clock, like Seen
	Seen    time.Time // the last report
	Silent  bool      // it has missed its reports
	Detail  ProcessDetail
}

// ProcessDetail is the part of a process's row that versions add to.
type ProcessDetail struct {
	PID    int      `json:"pid"`
	Queues []string `json:"queues,omitempty"` // whose tasks it runs
	Kinds  []string `json:"kinds,omitempty"`  // for which it has a handler
	Epoch  int64    `json:"epoch,omitempty"`  // of the term that it leads; 0: it leads none
	Ended  bool     `json:"ended,omitempty"`  // it has stopped; what it ran, read and led is no longer said

	Configured []string `json:"configured,omitempty"` // queues of its configuration

	Calls []protocol.Call `json:"calls,omitempty"` // what it runs, the longest first
}

// The states of a process that has not said that it stopped.
const (
	StateAlive  = "alive"
	StateStuck  = "stuck" // it is alive, and runs a handler for longer than the handler's limit
	StateSilent = "silent"
)

// callGrace is how long after its limit a handler has ended in any case, unless it ignores the end of its context.
const callGrace = time.Second

// State is how the process is, by its last report.
func (p Process) State() string {
	overdue := func(c protocol.Call) bool {
		return p.Seen.Sub(time.UnixMilli(c.SinceMs)) > time.Duration(c.LimitMs)*time.Millisecond+callGrace
	}
	switch {
	case p.Silent:
		return StateSilent
	case slices.ContainsFunc(p.Detail.Calls, overdue):
		return StateStuck
	}
	return StateAlive
}

// ReportProcess writes the row of a process that has run for so long.
func (s *Store) ReportProcess(ctx context.Context, p Process, uptime time.Duration) error {
	detail, err := json.Marshal(p.Detail)
	if err == nil {
		_, err = s.db.ExecContext(ctx, "INSERT INTO duetime_processes (id, role, host, version, started_at, seen_at, detail) VALUES (?, ?, ?, ?, "+
			s.dialect.now()+" - ?, "+s.dialect.now()+", ?)"+s.dialect.overwrite("id", "seen_at", "detail"),
			p.ID, p.Role, p.Host, p.Version, uptime.Milliseconds(), string(detail))
	}
	if err != nil {
		return fmt.Errorf("report process: %w", err)
	}
	return nil
}

// EndProcess says that a process has stopped. Its row stays for a week.
func (s *Store) EndProcess(ctx context.Context, p Process) error {
	detail, err := json.Marshal(ProcessDetail{PID: p.Detail.PID, Ended: true})
	if err == nil {
		_, err = s.db.ExecContext(ctx, "UPDATE duetime_processes SET seen_at = "+s.dialect.now()+", detail = ? WHERE id = ?", string(detail), p.ID)
	}
	if err != nil {
		return fmt.Errorf("end process: %w", err)
	}
	return nil
}

// ForgetProcesses deletes the rows of processes that ended or crashed long ago.
func (s *Store) ForgetProcesses(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, "DELETE FROM duetime_processes WHERE seen_at < "+s.dialect.now()+" - ?", processKept.Milliseconds())
	if err != nil {
		return fmt.Errorf("forget old processes: %w", err)
	}
	return nil
}

// Processes returns the processes that are alive, by role and host.
func (s *Store) Processes(ctx context.Context) ([]Process, error) {
	all, err := s.ListProcesses(ctx)
	return slices.DeleteFunc(all, func(p Process) bool { return p.Silent }), err
}

// ListProcesses returns the processes that have not said that they stopped, by role and host: those that are alive, and those that have
// been silent for up to an hour. A report of the future is of before the clock was set back.
func (s *Store) ListProcesses(ctx context.Context) ([]Process, error) {
	return s.listProcesses(ctx, s.db)
}

func (s *Store) listProcesses(ctx context.Context, q sqlx.QueryerContext) ([]Process, error) {
	var all []Process
	var p Process
	var detail []byte
	var now time.Time
	err := forEach(ctx, q, "SELECT id, role, host, version, started_at, seen_at, detail, "+s.dialect.now()+
		" FROM duetime_processes WHERE seen_at BETWEEN "+s.dialect.now()+" - ? AND "+s.dialect.now()+" + ? ORDER BY role, host, started_at, id",
		[]any{processListed.Milliseconds(), ProcessAlive.Milliseconds()},
		[]any{&p.ID, &p.Role, &p.Host, &p.Version, unixMs{&p.Started}, unixMs{&p.Seen}, &detail, unixMs{&now}}, func() {
			p.Detail = ProcessDetail{}
			_ = json.Unmarshal(detail, &p.Detail) // one bad row must not hide the others
			if p.Silent = now.Sub(p.Seen) > ProcessAlive; !p.Detail.Ended {
				all = append(all, p)
			}
		})
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	return all, nil
}

// Run is one run of a process, from its start to its last report.
type Run struct {
	Role, Version string
	Started, Seen time.Time
}

// maxRuns bounds how many rows Runs reads.
const maxRuns = 10_000

// Runs returns the runs of all processes that are remembered, in the order of their starts, and the database's time.
func (s *Store) Runs(ctx context.Context) (runs []Run, now time.Time, err error) {
	if now, err = s.Now(ctx, nil); err != nil {
		return nil, now, err
	}
	var r Run
	err = forEach(ctx, s.db, "SELECT role, version, started_at, seen_at FROM duetime_processes ORDER BY started_at DESC, id LIMIT ?", []any{maxRuns},
		[]any{&r.Role, &r.Version, unixMs{&r.Started}, unixMs{&r.Seen}}, func() { runs = append(runs, r) })
	if err != nil {
		return nil, now, fmt.Errorf("read runs of processes: %w", err)
	}
	slices.Reverse(runs)
	return runs, now, nil
}

// WorkerOf returns the process that lived at a moment and has this number (protocol.WorkerNumber), with its host and version; false if
// none is remembered.
func (s *Store) WorkerOf(ctx context.Context, number int64, at time.Time) (worker Process, known bool, err error) {
	var p Process
	err = forEach(ctx, s.db, "SELECT id, role, host, version FROM duetime_processes WHERE started_at <= ? AND seen_at >= ?",
		[]any{at.Add(ProcessAlive).UnixMilli(), at.Add(-ProcessAlive).UnixMilli()}, []any{&p.ID, &p.Role, &p.Host, &p.Version}, func() {
			if protocol.WorkerNumber(p.ID) == number {
				worker, known = p, true
			}
		})
	if err != nil {
		return worker, false, fmt.Errorf("look for the worker of a task: %w", err)
	}
	return worker, known, nil
}

// handlers are by queue the kinds that the queue's living workers handle.
type handlers map[string]map[string]bool

// handlers reads who handles what. Without an answer nothing is known, and nothing lacks a handler.
func (s *Store) handlers(ctx context.Context) handlers {
	alive, _ := s.Processes(ctx)
	all := handlers{}
	for _, p := range alive {
		for _, queue := range p.Detail.Queues {
			for _, kind := range p.Detail.Kinds {
				if all[queue] == nil {
					all[queue] = map[string]bool{}
				}
				all[queue][kind] = true
			}
		}
	}
	return all
}

// lack reports whether workers of the queue live, and none handles the kind.
func (h handlers) lack(queue, kind string) bool {
	kinds := h[queue]
	return len(kinds) > 0 && !kinds[kind]
}
