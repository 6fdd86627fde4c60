package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/limit"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

func limits(t *testing.T, s *store.Store) {
	ctx := t.Context()
	st, err := s.Limit(ctx, "mails")
	must(t, err)
	if st.Version != 0 || st.Queue != "mails" {
		t.Fatalf("a queue without a row: %+v", st)
	}
	st.Account, st.LimitedAt = limit.Account{Leased: t0.Add(1234 * time.Microsecond), Owed: 5 * time.Millisecond}, t0
	st.Holders = []limit.Holder{{Name: "a", Permits: 2, Wanted: 3, Since: t0, Until: t0.Add(time.Second)}}
	save := func(st limit.State, want bool) {
		t.Helper()
		saved, err := s.SaveLimit(ctx, st)
		must(t, err)
		if saved != want {
			t.Fatalf("saved %v, want %v", saved, want)
		}
	}
	save(st, true)
	save(st, false) // another worker made the row meanwhile
	read, err := s.Limit(ctx, "mails")
	must(t, err)
	st.Version = 1
	if d := cmp.Diff(st, read); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	read.Holders = nil
	save(read, true)
	save(read, false) // of the version before

	rate, none := task.Rate{Calls: 50, Per: time.Minute}, 0
	must(t, s.SetRate(ctx, s.DB(), "mails", &rate))
	must(t, s.SetConcurrency(ctx, s.DB(), "mails", &none))
	must(t, s.SetOwnerRate(ctx, s.DB(), "fresh", &rate))
	must(t, s.SetRate(ctx, s.DB(), "fresh", &task.Rate{}))
	read.Version = 2
	save(read, false) // an operator has changed it
	all, err := s.Limits(ctx)
	must(t, err)
	configured := task.Limit{Rate: task.Rate{Calls: 9, Per: time.Second}, Concurrency: 9, OwnerRate: task.Rate{Calls: 1, Per: time.Second}}
	for queue, want := range map[string]task.Limit{
		"mails": {Rate: rate, OwnerRate: configured.OwnerRate}, "fresh": {Concurrency: 9, OwnerRate: rate}, "other": configured,
	} {
		if got := all[queue].Limit(configured); got != want {
			t.Errorf("%s: %+v, want %+v", queue, got, want)
		}
	}
	must(t, s.SetRate(ctx, s.DB(), "mails", nil))
	must(t, s.SetConcurrency(ctx, s.DB(), "mails", nil))
	read, err = s.Limit(ctx, "mails")
	must(t, err)
	if got := read.Limit(configured); got != configured || read.Account.Leased.IsZero() {
		t.Errorf("as configured: %+v of %+v", got, read)
	}

	// A row that can't be read spoils no other one.
	must(t, exec(s.DB(), "UPDATE duetime_limits SET holders = '[{\"na' WHERE queue = 'mails'"))
	if _, err = s.Limit(ctx, "mails"); err == nil || !strings.Contains(err.Error(), "queue mails") {
		t.Errorf("a damaged row: %v", err)
	}
	all, err = s.Limits(ctx)
	must(t, err)
	if got := all["fresh"].Limit(configured); all["mails"].Damaged == nil || all["fresh"].Damaged != nil || got.Concurrency != 9 {
		t.Errorf("beside a damaged row: %+v", all)
	}
}
