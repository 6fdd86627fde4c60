package console

import (
	"cmp"
	"context"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
)

// ProcessState is how a process is, by its last report.
type ProcessState string

// The states of a process.
const (
	ProcessAlive  ProcessState = store.StateAlive  // it has reported itself within 15 s
	ProcessStuck  ProcessState = store.StateStuck  // it is alive, and runs a handler for longer than the handler's limit
	ProcessSilent ProcessState = store.StateSilent // it crashed, hangs, or can't reach MySQL; if it still runs, it may hold its tasks' rows
)

// Process is a process of the deployment that has not said that it stopped. One that is silent is listed for an hour.
type Process struct {
	Role      string        `json:"role"` // event, daemon, worker, api, console or embedded
	Host      string        `json:"host"`
	PID       int           `json:"pid"`
	Version   string        `json:"version"`
	StartedMs int64         `json:"started_ms"`
	SeenMs    int64         `json:"seen_ms"` // its last report
	State     ProcessState  `json:"state"`
	Queues    []string      `json:"queues,omitempty"` // whose tasks it runs
	Kinds     []string      `json:"kinds,omitempty"`  // for which it has a handler
	Epoch     int64         `json:"epoch,omitempty"`  // of the term that it leads
	Calls     []HandlerCall `json:"calls,omitempty"`  // what it ran at its last report, the longest first, at most 100
}

// HandlerCall is a call of a handler that had not returned.
type HandlerCall struct {
	Kind    string `json:"kind"`
	Task    string `json:"task"` // the first one of the call
	Tasks   int    `json:"tasks"`
	SinceMs int64  `json:"since_ms"`
	LimitMs int64  `json:"limit_ms"` // how long it may run
}

// Processes reads the processes that have not said that they stopped, by role and host.
func (c *Console) Processes(ctx context.Context) ([]Process, error) {
	known, err := c.store.ListProcesses(ctx)
	if err != nil {
		return nil, err
	}
	all := []Process{}
	for _, p := range known {
		all = append(all, Process{
			p.Role, p.Host, p.Detail.PID, p.Version, p.Started.UnixMilli(), p.Seen.UnixMilli(), ProcessState(p.State()), p.Detail.Queues, p.Detail.Kinds,
			p.Detail.Epoch, callsOf(p.Detail.Calls),
		})
	}
	return all, nil
}

func callsOf(running []protocol.Call) (all []HandlerCall) {
	for _, c := range running {
		all = append(all, HandlerCall{c.Kind, c.Task.String(), c.Tasks, c.SinceMs, c.LimitMs})
	}
	return all
}

// Deploy is the first start of a version since another version of the same role had started.
type Deploy struct {
	Role    string `json:"role"`
	Version string `json:"version"`
	AtMs    int64  `json:"at_ms"`
}

// Deploys reads which versions began to run in the span up to now, at most a week back, in the order of time. A version that comes back
// after another one is there again. The oldest one known of a role is no deploy.
func (c *Console) Deploys(ctx context.Context, span time.Duration) ([]Deploy, error) {
	runs, now, err := c.store.Runs(ctx)
	if err != nil {
		return nil, err
	}
	all := []Deploy{}
	for _, d := range deploysOf(runs) {
		if d.AtMs >= now.Add(-span).UnixMilli() {
			all = append(all, d)
		}
	}
	return all, nil
}

// deploysOf finds the deploys among runs in the order of their starts. A process of an older version that starts while others of that
// version still run is no deploy: in a rollout such processes crash and come back.
func deploysOf(runs []store.Run) (all []Deploy) {
	type version struct{ role, version string }
	newest, until := map[string]string{}, map[version]time.Time{}
	for _, r := range runs {
		v := version{r.Role, r.Version}
		before := newest[r.Role]
		if before != "" && before != r.Version && r.Started.After(until[v]) {
			all = append(all, Deploy{r.Role, r.Version, r.Started.UnixMilli()})
			newest[r.Role] = r.Version
		}
		newest[r.Role] = cmp.Or(newest[r.Role], r.Version)
		if r.Seen.After(until[v]) {
			until[v] = r.Seen
		}
	}
	return all
}
