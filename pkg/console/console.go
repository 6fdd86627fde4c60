// Package console gives operators' view of the pipeline and their changes of it, as data: a tool, a page or an API serves
// it.
//
// It promises that each change commits together with the line of history that names its author, or not at all. Only a
// rebuild, which changes no row, writes its line beforehand. The console counts only what it read: a part that could not
// be read is an error, or is reported as not checked. It prints nothing and knows no terminal: cmd/duetime has flags,
// questions, tables and exit codes. Of a pending task it changes only what a service may change, and the queue.
package console

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Config names the deployment and its operator.
type Config struct {
	Namespace string
	Queues    []string              // of the configuration
	Limits    map[string]task.Limit // of the configuration's queues
	Grace     time.Duration         // after which a pending row is overdue
	Retention time.Duration         // of finished rows
	Actor     string                // who makes changes, for the history: user@host
	Audits    []Audit               // of services, for their own data
}

// Console shows a deployment and changes it. It is safe for concurrent use.
type Console struct {
	cfg    Config
	store  *store.Store
	index  *index.Index
	client *schedule.Client
}

// New makes a console on open servers. The client must have the same actor.
func New(cfg Config, st *store.Store, x *index.Index, client *schedule.Client) *Console {
	return &Console{cfg: cfg, store: st, index: x, client: client}
}

// CheckQueue returns an error that names the configuration's queues unless the queue is one of them.
func (c *Console) CheckQueue(queue string) error {
	if !slices.Contains(c.cfg.Queues, queue) {
		return fmt.Errorf("queue %q is none of the configuration's: %s", queue, strings.Join(c.cfg.Queues, ", "))
	}
	return nil
}
