package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

// A walk reads whole rows of its state alone, within its bounds, each once.
func walks(t *testing.T, s *store.Store) {
	var rows []task.Task
	for _, in := range []int{0, 1, 1, 1, 1, 2, 3, 4, 5} {
		rows = append(rows, newTask(t, "ann", time.Duration(in)*time.Second))
	}
	rows = inserted(t, s, rows...)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Finish(ctx, s, tx, rows[2:3], t0)) })
	var got []task.ID
	pages := 0
	for q := (store.WalkQuery{From: t0.Add(time.Second), To: t0.Add(4 * time.Second), Scan: 3, Limit: 2}); ; {
		page, next, err := s.Walk(t.Context(), q)
		must(t, err)
		pages++
		for _, row := range page {
			if got = append(got, row.ID); len(row.Payload) == 0 {
				t.Errorf("the walk left the payload of %s out", row.ID)
			}
		}
		if q.After = next; next == (protocol.Cursor{}) {
			break
		}
	}
	if d := cmp.Diff([]task.ID{rows[1].ID, rows[3].ID, rows[4].ID, rows[5].ID, rows[6].ID}, got); d != "" || pages != 3 {
		t.Errorf("pending, in %d pages of 3 (-want +got):\n%s", pages, d)
	}
	for want, q := range map[int]store.WalkQuery{ // the rows that are left are due in 0, 1, 1, 1, 2, 3, 4 and 5 s
		2: {DueAfter: t0.Add(4*time.Second - time.Microsecond)},
		4: {DueBefore: t0.Add(time.Second + time.Microsecond)},
		5: {DueAfter: t0.Add(time.Second), DueBefore: t0.Add(4 * time.Second)},
	} {
		q.To, q.Scan, q.Limit = t0.Add(time.Hour), 100, 100
		page, _, err := s.Walk(t.Context(), q)
		if must(t, err); len(page) != want {
			t.Errorf("%+v: %d rows, want %d", q, len(page), want)
		}
	}
	done, next, err := s.Walk(t.Context(), store.WalkQuery{State: task.Done, To: t0.Add(time.Hour), Scan: 10, Limit: 10})
	must(t, err)
	if d := cmp.Diff(ids(rows[2:3]), ids(done)); d != "" || next != (protocol.Cursor{}) {
		t.Errorf("done, next at %v (-want +got):\n%s", next, d)
	}
}

// A walk finds by kind, queue and subject. A page in which it finds nothing has a next one.
func walksFind(t *testing.T, s *store.Store) {
	var rows []task.Task
	for i := range 6 {
		row := newTask(t, "ann", time.Duration(i)*time.Second)
		if i >= 4 {
			row.Kind, row.Queue, row.Subject = "rare", "side", "seven"
		}
		rows = append(rows, row)
	}
	rows = inserted(t, s, rows...)
	label(t, s, rows[0], "tier=gold")
	for _, row := range rows[1:4] {
		label(t, s, row, "tier=tin")
	}
	butCommon := task.Exclusion{Kinds: []string{rows[0].Kind}}
	butLabels := task.Exclusion{Labels: []string{"tier=gold", "tier=tin"}}
	for _, q := range []store.WalkQuery{{Exclude: butCommon}, {Exclude: butLabels}, {Kind: "rare"}, {Queue: "side"}, {Subject: "seven"}, {Kind: "rare", Queue: "side", Subject: "seven"}} {
		q.To, q.Scan, q.Limit = t0.Add(time.Hour), 4, 1
		found, next, err := s.Walk(t.Context(), q)
		must(t, err)
		if want := (protocol.Cursor{At: rows[3].RunAt, ID: rows[3].ID}); len(found) > 0 || next != want {
			t.Errorf("%+v: first page has %d rows, next at %v, want none and %v", q, len(found), next, want)
		}
		q.After = next
		found, next, err = s.Walk(t.Context(), q)
		must(t, err)
		if want := (protocol.Cursor{At: rows[4].RunAt, ID: rows[4].ID}); len(found) != 1 || found[0].ID != want.ID || next != want {
			t.Errorf("%+v: second page has %v, next at %v", q, ids(found), next)
		}
		q.After = next
		if found, next, err = s.Walk(t.Context(), q); err != nil || len(found) != 1 || next != (protocol.Cursor{}) {
			t.Errorf("%+v: last page has %v, next at %v, error %v", q, ids(found), next, err)
		}
	}
	q := store.WalkQuery{Kind: "rare", Queue: "default", To: t0.Add(time.Hour), Scan: 10, Limit: 10}
	if found, _, err := s.Walk(t.Context(), q); err != nil || len(found) > 0 {
		t.Errorf("rare tasks of another queue: %v, error %v", ids(found), err)
	}
}
