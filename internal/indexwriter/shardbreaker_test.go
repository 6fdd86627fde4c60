package indexwriter

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// oneInEach makes a task in each of n shards.
func oneInEach(n int) []task.Task {
	tasks := someTasks(n)
	for i := range tasks {
		tasks[i].Shard = i
	}
	return tasks
}

// cluster is an index one of whose shards can fail, at once or after a timeout.
type cluster struct {
	broken bool
	after  time.Duration

	mu  sync.Mutex
	put []task.ID
}

const brokenShard = 2

func (c *cluster) Put(ctx context.Context, tasks []task.Task) error {
	failed := map[int]error{}
	c.mu.Lock()
	for _, t := range tasks {
		if c.broken && t.Shard == brokenShard {
			failed[t.Shard] = errors.New("CLUSTERDOWN")
			continue
		}
		c.put = append(c.put, t.ID)
	}
	c.mu.Unlock()
	if len(failed) == 0 {
		return nil
	}
	select {
	case <-time.After(c.after):
	case <-ctx.Done():
	}
	return &protocol.ShardsError{Shards: failed}
}

func (c *cluster) has(t task.Task) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.put, t.ID)
}

// While one shard fails, at once or after the whole timeout, its tasks are compensated and all other shards' tasks are
// put. Once the shard is back, its tasks are put as before.
func TestFailingShardIsNobodyElsesTrouble(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{"at once": 0, "in silence": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &cluster{broken: true, after: after}
				r := newRig(t, Config{}, c.Put, &inbox{})
				var all []task.Task
				start := time.Now()
				for i := range 40 {
					some := oneInEach(4)
					all = append(all, some...)
					began := time.Now()
					r.PutAndWait(t.Context(), some[:1])
					// The first failure is unknown until it happens.
					if took := time.Since(began); began.Sub(start) > r.putTimeout && !c.has(some[0]) {
						t.Errorf("put %d of a sound shard was not there after %v", i, took)
					}
					r.PutAndWait(t.Context(), some[1:])
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				var lost []task.ID
				for _, one := range all {
					if one.Shard == brokenShard {
						lost = append(lost, one.ID)
					} else if !c.has(one) {
						t.Errorf("a task of shard %d was not put", one.Shard)
					}
				}
				sorted := func(ids []task.ID) []task.ID {
					slices.SortFunc(ids, task.ID.Compare)
					return ids
				}
				if diff := cmp.Diff(sorted(lost), sorted(r.inbox.got())); diff != "" {
					t.Errorf("compensated (-want +got):\n%s", diff)
				}
				if r.Away(0) {
					t.Error("a sound shard counts as away")
				}
				c.broken = false
				time.Sleep(breakerOpenTime)
				for range 2 { // the first put finds the failure
					some := oneInEach(4)
					r.PutAndWait(t.Context(), some)
					time.Sleep(time.Second)
					if !c.has(some[brokenShard]) {
						t.Error("a task of the healed shard was not put")
					}
				}
				r.close()
			})
		})
	}
}

// A flush of several calls puts only the newest version of each task, because its calls have no order.
func TestLargeFlushPutsTheNewestOfATask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		seen := map[task.ID][]int64{}
		gate := make(chan struct{})
		r := newRig(t, Config{}, func(_ context.Context, tasks []task.Task) error {
			<-gate
			mu.Lock()
			defer mu.Unlock()
			for _, one := range tasks {
				seen[one.ID] = append(seen[one.ID], one.Version)
			}
			return nil
		}, &inbox{})
		r.Enqueue(t.Context(), someTasks(1)) // while this put is under way, the following tasks gather for one flush
		synctest.Wait()
		made := someTasks(maxTasksPerCall)
		r.Enqueue(t.Context(), made)
		cancelled := slices.Clone(made)
		for i := range cancelled {
			cancelled[i].Version, cancelled[i].State = 2, task.Cancelled
		}
		r.Enqueue(t.Context(), cancelled)
		close(gate)
		r.close()
		for _, one := range made {
			if diff := cmp.Diff([]int64{2}, seen[one.ID]); diff != "" {
				t.Fatalf("versions put (-want +got):\n%s", diff)
			}
		}
	})
}
