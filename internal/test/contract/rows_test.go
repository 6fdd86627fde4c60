package contract_test

import (
	"database/sql"
	"errors"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

const (
	kindName  = "contract.effect"
	queueName = "shop"

	pending, done, cancelled, dead = 0, 1, 2, 3

	second = 1000 // ms
	minute = 60 * second
	hour   = 60 * minute

	dbClock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000"
)

// row is a task as the table holds it.
type row struct {
	Kind, Owner, Subject, Queue       string
	Place                             bool // it stands in its owner's shard
	State                             int
	Due, Run, Created, Changed, Ended int64
	Version, Attempt, MaxAttempts     int64
	Key, Payload, LastError           string
}

// row reads a task; the zero row if there is none.
func (s *suite) row(id task.ID) (r row) {
	s.t.Helper()
	err := s.db.QueryRowContext(s.t.Context(), `SELECT kind, owner, subject, queue, shard = CRC32(owner) MOD shards, state,
		due_at, run_at, created_at, updated_at, COALESCE(finished_at, 0), version, attempt, max_attempts,
		COALESCE(dedup_key, ''), payload, last_error FROM duetime_tasks, duetime_layout WHERE id = ?`, id[:]).Scan(
		&r.Kind, &r.Owner, &r.Subject, &r.Queue, &r.Place, &r.State, &r.Due, &r.Run, &r.Created, &r.Changed, &r.Ended,
		&r.Version, &r.Attempt, &r.MaxAttempts, &r.Key, &r.Payload, &r.LastError)
	if !errors.Is(err, sql.ErrNoRows) {
		pipelinetest.Must(s.t, err)
	}
	return r
}

// now is MySQL's time.
func (s *suite) now() int64 {
	s.t.Helper()
	return s.number("SELECT " + dbClock)
}

// effects counts the effects of a task.
func (s *suite) effects(id task.ID) int64 {
	s.t.Helper()
	return s.number("SELECT COUNT(*) FROM contract_effects WHERE task = ?", id[:])
}

// plan says how a planted task differs from one that came due a second ago.
type plan struct {
	state    int
	queue    string // default queueName
	kind     string // default kindName
	due, run int64  // ms from now
	attempt  int64
	key      string // as stored
}

// plant inserts a task as the contract says, or as the library would have changed it.
func (c *check) plant(changes ...func(*plan)) task.ID {
	c.t.Helper()
	p := plan{queue: queueName, kind: kindName, due: -second, run: -second}
	for _, change := range changes {
		change(&p)
	}
	id := task.NewID()
	c.exec(`INSERT INTO duetime_tasks (id, kind, owner, queue, shard, state, due_at, run_at, attempt, dedup_key, payload,
			created_at, updated_at, finished_at)
		SELECT ?, ?, ?, ?, CRC32(?) MOD shards, ?, at + ?, at + ?, ?, NULLIF(?, ''), '{"n":1}',
			at - 60000, at - 60000, IF(? > 0, at, NULL)
		FROM duetime_layout, (SELECT `+dbClock+` AS at) AS clock`,
		id[:], p.kind, c.owner, p.queue, c.owner, p.state, p.due, p.run, p.attempt, p.key, p.state)
	return id
}

func at(due, run int64) func(*plan) { return func(p *plan) { p.due, p.run = due, run } }

func in(state int) func(*plan) { return func(p *plan) { p.state = state } }

func keyed(stored string) func(*plan) { return func(p *plan) { p.key = stored } }

func attempted(n int64) func(*plan) { return func(p *plan) { p.attempt = n } }

func of(queue, kind string) func(*plan) { return func(p *plan) { p.queue, p.kind = queue, kind } }

// wantRow compares a row but for some fields, which the caller compares.
func (c *check) wantRow(id task.ID, want row, except ...string) {
	c.t.Helper()
	if diff := cmp.Diff(want, c.row(id), cmpopts.IgnoreFields(row{}, except...)); diff != "" {
		c.faultf("the row (-want +got):\n%s", diff)
	}
}

// wantEffects compares the number of a task's effects.
func (c *check) wantEffects(id task.ID, want int64) {
	c.t.Helper()
	if got := c.effects(id); got != want {
		c.faultf("%d effects, want %d", got, want)
	}
}

// wantAnswer compares an answer.
func (c *check) wantAnswer(got string, want ...string) {
	c.t.Helper()
	if !slices.Contains(want, got) {
		c.faultf("it answers %q, want %q", got, want)
	}
}

// wantBetween wants a moment to be one of MySQL's clock while the request ran.
func (c *check) wantBetween(what string, got, from, to int64) {
	c.t.Helper()
	if got < from || got > to {
		c.faultf("%s is %d, want %d to %d", what, got, from, to)
	}
}

// ended returns the row after its end by the next transition, with the key that it has then.
func ended(before row, state int, key string) row {
	before.State, before.Key = state, key
	before.Version++
	return before
}
