package console

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// compensator keeps the ids that the daemon is to look at.
type compensator struct {
	worldtest.Nowhere
	mu  sync.Mutex
	ids []task.ID
}

func (c *compensator) Compensate(_ context.Context, asked protocol.Compensation) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids = append(c.ids, asked.IDs...)
	return nil
}

func (c *compensator) has(id task.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.ids, id)
}

// A COMMIT without an answer may have been made: no verb says that it has failed, and none is run twice. The daemon looks at
// the tasks.
func TestLostCommit(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), pipelinetest.MySQL(t)
	loser := pipelinetest.LoseCommits(t, server.Addr())
	dsn := worldtest.NewStore(t, "test", store.Options{}).DSN
	s := worldtest.OpenStore(t, strings.Replace(dsn, server.Addr(), loser.Addr(), 1), store.Options{})
	w, asked := &world{t, s}, &compensator{}
	client, err := schedule.New(schedule.Config{}, s, asked, asked)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { client.Close(context.Background()) })
	c := New(Config{Actor: "ann@host", Queues: []string{"default", "mails"}}, s.Store, nil, client)

	retried, discarded := w.dead(), w.dead()
	w.pending()
	imported := kind.New("ann", 2, task.In(time.Hour))
	for _, verb := range []struct {
		name    string
		touched task.ID // zero for none
		do      func() error
	}{
		{"retry", retried.ID, func() error { _, err := c.Retry(ctx, retried.ID, 0); return err }},
		{"discard", discarded.ID, func() error { _, err := c.Discard(ctx, discarded.ID, 0); return err }},
		{"requeue", task.ID{}, func() error { _, err := c.Requeue(ctx, "meal", "", "mails"); return err }},
		{"import", imported.ID(), func() error { return c.Import(ctx, []task.Spec{imported}, "a set") }},
		{"pause", task.ID{}, func() error { _, err := c.Pause(ctx, "mails"); return err }},
	} {
		loser.Lose(true)
		err := verb.do()
		loser.Lose(false)
		if !errors.Is(err, schedule.ErrCommitUnknown) || schedule.IsRetryable(err) {
			t.Errorf("%s: %v, want one that is %v", verb.name, err, schedule.ErrCommitUnknown)
		}
		if !verb.touched.IsZero() {
			pipelinetest.Await(t, verb.name+": compensation", func() bool { return asked.has(verb.touched) })
		}
	}
	if lines := w.life(retried.ID); w.store.Row(retried.ID).State != task.Pending || len(lines) != 1 {
		t.Errorf("the retried task is %v with the lines %q", w.store.Row(retried.ID), lines)
	}
	if paused, err := s.Paused(ctx); err != nil || len(paused) != 1 {
		t.Errorf("paused are %v, %v", paused, err)
	}
}
