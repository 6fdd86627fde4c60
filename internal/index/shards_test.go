package index_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestShardsAsAnOperatorSeesThem(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		shards := func() []index.Shard {
			t.Helper()
			got, err := x.Shards(t.Context(), 3)
			pipelinetest.Must(t, err)
			return got
		}
		none := index.Shard{Marker: index.MarkerAbsent}
		if d := cmp.Diff([]index.Shard{none, none, none}, shards()); d != "" {
			t.Errorf("empty (-want +got):\n%s", d)
		}
		other := pending("bob", 200, 1)
		other.Shard = 2
		put(t, x, pending("ann", 300, 1), pending("ann", 100, 3), pending("cid", 500, 1), other)
		claim(t, x, -1000, 1)
		token, err := x.BeginRebuild(t.Context(), 0)
		pipelinetest.Must(t, err)
		_, err = x.EndRebuild(t.Context(), 0, token)
		pipelinetest.Must(t, err)
		_, err = x.BeginRebuild(t.Context(), 2)
		pipelinetest.Must(t, err)
		want := []index.Shard{
			{Due: 3, Oldest: at(100), Marker: index.MarkerComplete, Epoch: 1},
			none,
			{Due: 1, Oldest: at(200), Marker: index.MarkerBuilding},
		}
		if d := cmp.Diff(want, shards()); d != "" {
			t.Errorf("filled (-want +got):\n%s", d)
		}
		owners, err := x.OwnerSets(t.Context(), 3)
		pipelinetest.Must(t, err)
		if d := cmp.Diff([]int64{2, 0, 1}, owners); d != "" {
			t.Errorf("owners (-want +got):\n%s", d)
		}
		pipelinetest.Must(t, x.Unmark(t.Context(), []int{0, 1}))
		want[0].Marker = index.MarkerAbsent
		if d := cmp.Diff(want, shards()); d != "" {
			t.Errorf("unmarked (-want +got):\n%s", d)
		}
	})
}

func TestShardsOfAnAbsentServer(t *testing.T) {
	t.Parallel()
	nobody := pipelinetest.Proxy(t, "127.0.0.1:1")
	nobody.Refuse()
	x := open(t, index.Config{Addrs: []string{nobody.Addr()}, ReadTimeout: time.Second})
	if _, err := x.Shards(t.Context(), 2); !index.Away(err) {
		t.Errorf("error %v, want one of a server that is away", err)
	}
	if err := x.Unmark(t.Context(), []int{1}); !index.Away(err) {
		t.Errorf("error %v, want one of a server that is away", err)
	}
	if _, err := x.OwnerSets(t.Context(), 2); !index.Away(err) {
		t.Errorf("error %v, want one of a server that is away", err)
	}
}
