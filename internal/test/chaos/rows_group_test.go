package chaos_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

const (
	groupMembers   = 5000
	groupDead      = 100
	groupCancelled = 100
	groupKills     = 2
)

// chaosMember is the payload of members and of the follower.
type chaosMember struct {
	Dies bool `json:"dies"`
}

var (
	memberKind   = task.NewKind[chaosMember]("chaos.member")
	followerKind = task.NewKind[chaosMember]("chaos.follower")
)

func groupRow() entry {
	return entry{
		n: 90, fault: fmt.Sprintf("a group of %d tasks due at one moment, %d dead and %d cancelled, a worker killed %d times meanwhile",
			groupMembers, groupDead, groupCancelled, groupKills), alone: true,
		setup: setup{worker: "./internal/test/chaos/poison", rate: 100}, run: groupEndsOnce,
	}
}

// groupEndsOnce has a group end while workers are killed and its last members are cancelled, and wants one follower, after all of them,
// that knows how many there were of each.
func groupEndsOnce(t *testing.T, d *drill) {
	t.Helper()
	d.exec(t, `CREATE TABLE chaos_followers (task_id VARCHAR(36) NOT NULL, name VARCHAR(64) NOT NULL, done INT NOT NULL, dead INT NOT NULL,
		cancelled INT NOT NULL) ENGINE=InnoDB`)
	s, err := store.Open(d.DSN, store.Options{})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	client, err := schedule.New(schedule.Config{Logger: slog.New(slog.DiscardHandler)}, s, worldtest.Nowhere{}, worldtest.Nowhere{})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { client.Close(context.Background()) })
	late := plantGroup(t, client, time.Now().Add(5*time.Second))

	ended := func() int {
		return d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'chaos.member' AND state <> 0`)
	}
	var cancelling sync.WaitGroup
	for i := range groupKills {
		d.fault(t, fmt.Sprintf("worker killed, the %d. time", i+1), 10*time.Second, func() {
			d.await(t, "members to end", 2*time.Minute, func() bool { return ended() > groupMembers*(i+1)/8 })
			if i == 0 {
				cancelling.Go(func() { cancelMembers(t, client, late) })
			}
			pipelinetest.Must(t, d.workers[0].Kill())
			time.Sleep(time.Second)
			d.restart(t, d.workers[0])
		})
	}
	cancelling.Wait()
	d.await(t, "the follower to run", 3*time.Minute, func() bool { return d.count(t, `SELECT COUNT(*) FROM chaos_followers`) > 0 })
	for what, query := range map[string]string{
		"followers": `SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'chaos.follower'`,
		"effects of the follower, with exact counts": fmt.Sprintf(`SELECT COUNT(*) FROM chaos_followers WHERE name = 'chaos' AND done = %d AND dead = %d
			AND cancelled = %d`, groupMembers-groupDead-groupCancelled, groupDead, groupCancelled),
		"effects of the follower": `SELECT COUNT(*) FROM chaos_followers`,
		"followers after the last member": `SELECT COUNT(*) FROM duetime_tasks AS f WHERE f.kind = 'chaos.follower' AND f.created_at >=
			(SELECT MAX(finished_at) FROM duetime_tasks WHERE kind = 'chaos.member')`,
	} {
		if n := d.count(t, query); n != 1 {
			t.Errorf("%s: %d, want 1", what, n)
		}
	}
	if n := d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'chaos.member' AND state = 0`); n != 0 {
		t.Errorf("%d members are open, and the follower has run", n)
	}
}

// plantGroup schedules the group, and returns the members that are to be cancelled: they are due in an hour.
func plantGroup(t *testing.T, client *schedule.Client, due time.Time) (late []task.ID) {
	t.Helper()
	var specs []task.Spec
	for i := range groupMembers {
		when := task.At(due)
		if i%(groupMembers/groupCancelled) == 1 {
			when = task.In(time.Hour)
		}
		spec := memberKind.New(fmt.Sprint("member-", i%500), chaosMember{Dies: i%(groupMembers/groupDead) == 0}, when)
		if specs = append(specs, spec); i%(groupMembers/groupCancelled) == 1 {
			late = append(late, spec.ID())
		}
	}
	ctx := t.Context()
	pipelinetest.Must(t, client.InTx(ctx, func(tx *schedule.Tx) error {
		then := task.Follower{Spec: followerKind.New("office", chaosMember{}, task.In(0)), Open: true}
		_, err := tx.Group(ctx, "chaos", specs[:task.MaxPerCall], then)
		return err
	}))
	for at := task.MaxPerCall; at < len(specs); at += task.MaxPerCall {
		pipelinetest.Must(t, client.InTx(ctx, func(tx *schedule.Tx) error {
			_, err := tx.AddToGroup(ctx, "chaos", specs[at:at+task.MaxPerCall])
			return err
		}))
	}
	pipelinetest.Must(t, client.InTx(ctx, func(tx *schedule.Tx) error { return tx.SealGroup(ctx, "chaos") }))
	return late
}

func cancelMembers(t *testing.T, client *schedule.Client, ids []task.ID) {
	for _, id := range ids {
		if _, err := client.Cancel(context.Background(), id); err != nil {
			t.Errorf("cancel member %s: %v", id, err)
		}
	}
}
