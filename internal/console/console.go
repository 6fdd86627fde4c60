// Package console is what operators see of the pipeline and what they do to it, as data: a tool, a page or an API serves it.
//
// It promises that each change commits together with the line of history that says who made it, or not at all; only a rebuild,
// which changes no row, has its line before it. It counts nothing that it did not read: what could not be read is an error,
// or said to be not checked. It prints nothing, asks nobody and knows no terminal: cmd/duetime has flags, questions, tables and
// exit codes. Of a pending task it changes nothing but what a service may change, and the queue.
package console

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/schedule"
)

// Config says which deployment the console is for, and who uses it.
type Config struct {
	Namespace string
	Queues    []string      // of the configuration
	Grace     time.Duration // after which a pending row is overdue
	Retention time.Duration // of finished rows
	Actor     string        // who changes things, in the history: user@host
	Audits    []Audit       // that services have for their own data
}

// Console shows a deployment and changes it. It is safe for concurrent use.
type Console struct {
	cfg    Config
	store  *store.Store
	index  *index.Index
	client *schedule.Client
}

// New makes a console on open servers. The client has the same actor.
func New(cfg Config, st *store.Store, x *index.Index, client *schedule.Client) *Console {
	return &Console{cfg: cfg, store: st, index: x, client: client}
}

// CheckQueue is an error that names the configuration's queues, if the queue is none of them.
func (c *Console) CheckQueue(queue string) error {
	if !slices.Contains(c.cfg.Queues, queue) {
		return fmt.Errorf("queue %q is none of the configuration's: %s", queue, strings.Join(c.cfg.Queues, ", "))
	}
	return nil
}
