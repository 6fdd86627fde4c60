package index_test

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

// limit is how long a test waits for an expected event: the machine may be slow and shared.
const limit = time.Minute

// base is the time of the tests.
var base = time.UnixMilli(1_790_000_000_000).UTC()

func at(ms int64) time.Time { return base.Add(time.Duration(ms) * time.Millisecond) }

// onEach runs the same case over redis-server and over miniredis.
func onEach(t *testing.T, test func(t *testing.T, x *index.Index)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, open(t, index.Config{Addrs: []string{pipelinetest.Redis(t).Addr()}}))
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, open(t, index.Config{Addrs: []string{worldtest.Memory(t).Addr()}}))
	})
}

func open(t testing.TB, cfg index.Config) *index.Index {
	t.Helper()
	if cfg.Namespace == "" {
		cfg.Namespace = pipelinetest.Namespace(t)
	}
	if cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = limit
	}
	x, err := index.Open(cfg)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, x.Close()) })
	return x
}

// pending makes a task of shard 0 that is due ms after base.
func pending(owner string, ms, version int64) task.Task {
	return task.Task{
		ID: task.NewID(), Kind: "pet.meal_finished", Queue: "default", Owner: owner, Subject: "pet-7",
		State: task.Pending, DueAt: at(ms), RunAt: at(ms), Version: version,
	}
}

// moved returns the task with another time and version.
func moved(t task.Task, ms, version int64) task.Task {
	t.RunAt, t.Version = at(ms), version
	return t
}

// ended returns the done task with a version.
func ended(t task.Task, version int64) task.Task {
	t.State, t.Version = task.Done, version
	return t
}

func entry(t task.Task) protocol.Entry {
	return protocol.Entry{
		Member: index.Encode(t), Score: protocol.ScoreOf(t),
		ID: t.ID, Kind: t.Kind, Queue: t.Queue, Owner: t.Owner, Subject: t.Subject,
	}
}

func entries(tasks ...task.Task) []protocol.Entry {
	all := make([]protocol.Entry, 0, len(tasks))
	for _, t := range tasks {
		all = append(all, entry(t))
	}
	return all
}

func put(t testing.TB, x *index.Index, tasks ...task.Task) {
	t.Helper()
	pipelinetest.Must(t, x.Put(t.Context(), tasks))
}

func claim(t testing.TB, x *index.Index, ms int64, most int, acked ...protocol.Entry) protocol.Claim {
	t.Helper()
	c, err := x.Claim(t.Context(), 0, 1, at(ms), 0, most, acked)
	pipelinetest.Must(t, err)
	c.Coming = 0 // another test checks Coming
	return c
}

func standings(t testing.TB, x *index.Index, tasks ...task.Task) []protocol.Standing {
	t.Helper()
	s, err := x.Standings(t.Context(), tasks)
	pipelinetest.Must(t, err)
	return s
}

// stand sets the scores in both sets, without the scripts.
func stand(t testing.TB, x *index.Index, of task.Task, s protocol.Standing) {
	t.Helper()
	set(t, x, x.Key(of.Shard, "due"), index.Encode(of), s.Due)
	set(t, x, x.Key(of.Shard, "owner:"+of.Owner), index.Encode(of), s.Owner)
}

func set(t testing.TB, x *index.Index, key, member string, score protocol.Score) {
	t.Helper()
	var err error
	if score == protocol.NoScore {
		err = x.Client().ZRem(t.Context(), key, member).Err()
	} else {
		text := strconv.FormatFloat(float64(score), 'f', -1, 64)
		err = x.Client().Do(t.Context(), "ZADD", key, text, member).Err()
	}
	pipelinetest.Must(t, err)
}

func diff(t testing.TB, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateErrors()); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// eventually polls until the condition holds.
func eventually(t testing.TB, what string, holds func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds(ctx) {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %v", what, limit)
		case <-tick.C:
		}
	}
}

func TestOpenRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	addrs := []string{"127.0.0.1:1"}
	for name, cfg := range map[string]index.Config{
		"no namespace":          {Addrs: addrs},
		"braces in namespace":   {Namespace: "a{b}", Addrs: addrs},
		"no address":            {Namespace: "a"},
		"unknown mode":          {Namespace: "a", Addrs: addrs, Mode: "ring"},
		"sentinel, no master":   {Namespace: "a", Addrs: addrs, Mode: index.Sentinel},
		"closing brace at last": {Namespace: "a}", Addrs: addrs},
	} {
		if x, err := index.Open(cfg); err == nil {
			t.Errorf("%s: opened", name)
			_ = x.Close()
		}
	}
}

func TestNamespaceBelongsToOneDeployment(t *testing.T) {
	t.Parallel()
	x := open(t, index.Config{Addrs: []string{pipelinetest.Redis(t).Addr()}})
	for _, deployment := range []string{"first", "second", "first"} {
		owner, err := x.ClaimNamespace(t.Context(), deployment)
		pipelinetest.Must(t, err)
		if owner != "first" {
			t.Errorf("%s: the owner is %s, want first", deployment, owner)
		}
	}
}
