package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/store"
)

func TestPartitionsAreHandedOverByTheirHolderAlone(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *store.Store) {
		take := func(holder string, want []int, parts ...int) {
			t.Helper()
			got := value[[]int](t)(s.TakeOver(t.Context(), "q", holder, parts))
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("left in good order, when %s takes %v (-want +got):\n%s", holder, parts, d)
			}
		}
		leave := func(holder string, parts ...int) {
			t.Helper()
			must(t, s.HandOver(t.Context(), "q", holder, parts, t0))
		}
		take("a", nil, 0, 1, 2)
		leave("a", 0, 1)
		take("b", []int{0, 1}, 0, 1, 2)
		take("c", nil, 0, 1, 2) // b crashed
		leave("b", 0, 1, 2)     // b was only slow, but c holds the partitions now
		take("d", nil, 0, 1)
		leave("d")
		leave("d", 0, 1, 7)
		got := value[[]int](t)(s.TakeOver(t.Context(), "other", "e", []int{0, 1}))
		if len(got) > 0 {
			t.Errorf("partitions %v of another queue were left", got)
		}
		take("d", []int{0, 1}, 0, 1, 2, 3)
		take("d", nil)
	})
}
