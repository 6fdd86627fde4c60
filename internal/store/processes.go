package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// ProcessAlive is how long after its last report a process counts as alive: it may miss two.
const ProcessAlive = 15 * time.Second

// processKept is how long the row of a process that crashed is kept.
const processKept = time.Hour

// Process is a running program of the deployment, as it last reported itself.
type Process struct {
	ID      string // of this run
	Role    string // event, daemon, worker, api, console or embedded
	Host    string
	Version string
	Started time.Time // on the database's clock, like Seen
	Seen    time.Time // the last report
	Detail  ProcessDetail
}

// ProcessDetail is the part of a process's row that versions add to.
type ProcessDetail struct {
	PID    int      `json:"pid"`
	Queues []string `json:"queues,omitempty"` // whose tasks it runs
	Kinds  []string `json:"kinds,omitempty"`  // for which it has a handler
	Epoch  int64    `json:"epoch,omitempty"`  // of the term that it leads; 0: it leads none
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

// ForgetProcess deletes the row of a process that ends.
func (s *Store) ForgetProcess(ctx context.Context, id string) error {
	if _, err := s.db.ExecContext(ctx, "DELETE FROM duetime_processes WHERE id = ?", id); err != nil {
		return fmt.Errorf("forget process: %w", err)
	}
	return nil
}

// ForgetCrashed deletes the rows of processes that ended long ago without a word.
func (s *Store) ForgetCrashed(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, "DELETE FROM duetime_processes WHERE seen_at < "+s.dialect.now()+" - ?", processKept.Milliseconds())
	if err != nil {
		return fmt.Errorf("forget crashed processes: %w", err)
	}
	return nil
}

// Processes returns the processes that are alive, by role and host. A report of the future is of before the clock was set back.
func (s *Store) Processes(ctx context.Context) ([]Process, error) {
	var all []Process
	var p Process
	var detail []byte
	alive := ProcessAlive.Milliseconds()
	err := forEach(ctx, s.db, "SELECT id, role, host, version, started_at, seen_at, detail FROM duetime_processes WHERE seen_at BETWEEN "+
		s.dialect.now()+" - ? AND "+s.dialect.now()+" + ? ORDER BY role, host, started_at, id", []any{alive, alive},
		[]any{&p.ID, &p.Role, &p.Host, &p.Version, unixMs{&p.Started}, unixMs{&p.Seen}, &detail}, func() {
			p.Detail = ProcessDetail{}
			_ = json.Unmarshal(detail, &p.Detail) // one bad row must not hide the others
			all = append(all, p)
		})
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	return all, nil
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
