package console

import "context"

// Process is a process of the deployment that is alive: it has reported itself within 15 s.
type Process struct {
	Role      string   `json:"role"` // event, daemon, worker, api, console or embedded
	Host      string   `json:"host"`
	PID       int      `json:"pid"`
	Version   string   `json:"version"`
	StartedMs int64    `json:"started_ms"`
	SeenMs    int64    `json:"seen_ms"`          // its last report
	Queues    []string `json:"queues,omitempty"` // whose tasks it runs
	Kinds     []string `json:"kinds,omitempty"`  // for which it has a handler
	Epoch     int64    `json:"epoch,omitempty"`  // of the term that it leads
}

// Processes reads the processes that are alive, by role and host. One that crashed is listed for 15 s more.
func (c *Console) Processes(ctx context.Context) ([]Process, error) {
	alive, err := c.store.Processes(ctx)
	if err != nil {
		return nil, err
	}
	all := []Process{}
	for _, p := range alive {
		all = append(all, Process{
			p.Role, p.Host, p.Detail.PID, p.Version, p.Started.UnixMilli(), p.Seen.UnixMilli(), p.Detail.Queues, p.Detail.Kinds, p.Detail.Epoch,
		})
	}
	return all, nil
}
