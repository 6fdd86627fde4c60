package index_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

// pages walks the owner's list.
func pages(t *testing.T, x *index.Index, owner, kind string, limit int) (all []protocol.Entry) {
	t.Helper()
	for place := ""; ; {
		some, next, _, err := x.OwnerPage(t.Context(), 0, owner, kind, place, limit)
		pipelinetest.Must(t, err)
		if len(some) > limit {
			t.Errorf("%d in a page of %d", len(some), limit)
		}
		all = append(all, some...)
		if place = next; place == "" {
			return all
		}
	}
}

func TestOwnerPage(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		var all []task.Task
		for i := range 500 {
			p := pending("o", int64(i/200), 1) // many at one score
			if i%10 == 0 {
				p.Kind = "rare"
			}
			all = append(all, p)
		}
		put(t, x, all...)
		whole, _, err := worldtest.OwnerEntries(t.Context(), x, 0, "o")
		pipelinetest.Must(t, err)
		diff(t, "tasks", len(whole), len(all))
		for _, limit := range []int{1, 7, 199, 500, 1000} {
			diff(t, fmt.Sprint("pages of ", limit), pages(t, x, "o", "", limit), whole)
		}
		diff(t, "rare", len(pages(t, x, "o", "rare", 3)), 50)
		diff(t, "of no kind", len(pages(t, x, "o", "rar", 3)), 0)
		diff(t, "of nobody", len(pages(t, x, "p", "", 3)), 0)

		// The place stays valid when its member was removed.
		first, place, _, err := x.OwnerPage(t.Context(), 0, "o", "", "", 100)
		pipelinetest.Must(t, err)
		for _, e := range first {
			_, err := x.Remove(t.Context(), 0, e)
			pipelinetest.Must(t, err)
		}
		second, _, _, err := x.OwnerPage(t.Context(), 0, "o", "", place, 100)
		pipelinetest.Must(t, err)
		diff(t, "second page", second, whole[100:200])
		for _, place := range []string{"x", "AAAA", "%%%"} {
			if _, _, _, err := x.OwnerPage(t.Context(), 0, "o", "", place, 1); err == nil {
				t.Errorf("the place %q was taken", place)
			}
		}
	})
}

// An owner with very many tasks delays nobody: no command on its set takes Redis long, and each walk sees all members.
func TestLargeOwnerHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	const count = 100_000
	server := pipelinetest.OwnRedis(t)
	x := open(t, index.Config{Addrs: []string{server.Addr()}})
	for first := 0; first < count; first += 10_000 {
		var members []redis.Z
		for i := range 10_000 {
			p := pending("whale", int64(first+i)/3, 1)
			members = append(members, redis.Z{Score: float64(protocol.ScoreOf(p)), Member: index.Encode(p)})
		}
		pipelinetest.Must(t, x.Client().ZAdd(t.Context(), x.Key(0, "owner:whale"), members...).Err())
	}
	small := pending("minnow", 1, 1)
	put(t, x, small)
	// The limit depends on the machine's present speed: a fifth of the time to read the whole set at once.
	began := time.Now()
	pipelinetest.Must(t, x.Client().Do(t.Context(), "EVAL", "return #redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')", 1, x.Key(0, "owner:whale")).Err())
	slowest := time.Since(began) / 5
	pipelinetest.Must(t, x.Client().ConfigSet(t.Context(), "slowlog-log-slower-than", strconv.FormatInt(slowest.Microseconds(), 10)).Err())
	pipelinetest.Must(t, x.Client().SlowLogReset(t.Context()).Err())

	seen := map[string]int{}
	for cursor := (protocol.ScanCursor{}); ; {
		some, next, err := x.ScanOwners(t.Context(), 0, cursor, 1000)
		pipelinetest.Must(t, err)
		if len(some) > 2000 {
			t.Errorf("a page of %d", len(some))
		}
		for _, e := range some {
			seen[e.Owner]++
		}
		if cursor = next; cursor.Done() {
			break
		}
	}
	if seen["whale"] < count || seen["minnow"] != 1 {
		t.Errorf("the walk saw %v", seen)
	}
	diff(t, "listed", len(pages(t, x, "whale", "", 1000)), count)
	_, _, _, err := x.OwnerPage(t.Context(), 0, "whale", "rare", "", 1000)
	pipelinetest.Must(t, err)
	slow, err := x.Client().SlowLogGet(t.Context(), 10).Result()
	pipelinetest.Must(t, err)
	if len(slow) > 2 { // the machine may be busy with other work
		t.Errorf("%d commands took Redis more than %v: %v took %v", len(slow), slowest, slow[0].Args[:2], slow[0].Duration)
	}
}
