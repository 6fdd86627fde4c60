package imports

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// fill adds n members, of whom many have one score, and returns their names in the set's order.
func fill(t *testing.T, client *redis.Client, key string, n int) []string {
	t.Helper()
	var all []redis.Z
	for i := range n {
		all = append(all, redis.Z{Score: float64(1_900_000_000 + i/40*40), Member: fmt.Sprintf("member %05d", i)})
	}
	pipelinetest.Must(t, client.ZAdd(t.Context(), key, all...).Err())
	names, err := client.ZRange(t.Context(), key, 0, -1).Result()
	pipelinetest.Must(t, err)
	return names
}

// walked reads the whole set in pages of 10, and calls between after each.
func walked(t *testing.T, client *redis.Client, key string, cfg Config, between func(page int)) []string {
	t.Helper()
	w := newWalk(client, &ZSet{Key: key, Unit: UnitSeconds}, cfg)
	w.size = 10
	_, err := w.count(t.Context())
	pipelinetest.Must(t, err)
	var names []string
	for page := 0; ; page++ {
		members, err := w.next(t.Context())
		pipelinetest.Must(t, err)
		if len(members) == 0 {
			return names
		}
		for _, m := range members {
			names = append(names, m.name)
		}
		between(page)
	}
}

func TestWalkReadsEachMemberOnceInOrder(t *testing.T) {
	t.Parallel()
	client, key := server(t)
	if got := walked(t, client, key, Config{}, func(int) {}); len(got) != 0 {
		t.Errorf("of no set: %v", got)
	}
	for _, n := range []int{1, 9, 10, 11, 30, 205} {
		pipelinetest.Must(t, client.Del(t.Context(), key).Err())
		want := fill(t, client, key, n)
		if diff := cmp.Diff(want, walked(t, client, key, Config{}, func(int) {})); diff != "" {
			t.Errorf("%d members (-want +got):\n%s", n, diff)
		}
	}
}

func TestWalkKeepsToItsBounds(t *testing.T) {
	t.Parallel()
	client, key := server(t)
	all := fill(t, client, key, 200)
	at := func(i int) time.Time { return time.Unix(1_900_000_000+int64(i), 0) }
	for _, c := range []struct {
		cfg  Config
		want []string
	}{
		{Config{DueAfter: at(80)}, all[80:]},
		{Config{DueAfter: at(81)}, all[120:]},
		{Config{DueBefore: at(80)}, all[:80]},
		{Config{DueAfter: at(40), DueBefore: at(160)}, all[40:160]},
		{Config{DueAfter: at(500)}, nil},
		{Config{DueBefore: at(0)}, nil},
	} {
		if diff := cmp.Diff(c.want, walked(t, client, key, c.cfg, func(int) {})); diff != "" {
			t.Errorf("from %s to %s (-want +got):\n%s", c.cfg.DueAfter, c.cfg.DueBefore, diff)
		}
	}
}

// While the set is read, its own workers take members from its front, and others add members anywhere. What stays is read
// once.
func TestWalkBesideWorkers(t *testing.T) {
	t.Parallel()
	client, key := server(t)
	all := fill(t, client, key, 600)
	stay := slices.Clone(all)
	random := rand.New(rand.NewPCG(1, 2))
	got := walked(t, client, key, Config{}, func(page int) {
		ctx := t.Context()
		switch page % 3 {
		case 0:
			taken, err := client.ZPopMin(ctx, key, int64(random.IntN(25))).Result()
			pipelinetest.Must(t, err)
			for _, z := range taken {
				stay = slices.DeleteFunc(stay, func(name string) bool { return name == z.Member })
			}
		case 1:
			for i := range random.IntN(25) { // at the front
				z := redis.Z{Score: 1_800_000_000, Member: fmt.Sprintf("new %d %d", page, i)}
				pipelinetest.Must(t, client.ZAdd(ctx, key, z).Err())
			}
		}
	})
	seen := map[string]int{}
	for _, name := range got {
		seen[name]++
	}
	for _, name := range stay {
		if seen[name] != 1 {
			t.Errorf("%s was read %d times", name, seen[name])
		}
	}
	if !slices.IsSorted(got) || len(stay) < 200 {
		t.Errorf("%d of 600 stayed; read %v", len(stay), got)
	}
}
