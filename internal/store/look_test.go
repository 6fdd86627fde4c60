package store_test

import (
	"context"
	"database/sql/driver"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

// walk reads all pages of a look.
func walk(t *testing.T, s *store.Store, l protocol.Look) (all []task.ID, pages int) {
	t.Helper()
	for {
		rows, next, err := s.Look(t.Context(), l)
		must(t, err)
		all, pages = append(all, ids(rows)...), pages+1
		if next == (protocol.Cursor{}) {
			return all, pages
		}
		l.After = next
	}
}

func looks(t *testing.T, s *store.Store) {
	var rows []task.Task
	for i := range 12 {
		row := newTask(t, "ann", time.Duration(i/2)*time.Second)
		switch i % 4 {
		case 1:
			row.Queue = "other"
		case 2:
			row.Kind = "other"
		}
		rows = append(rows, row)
	}
	rows = inserted(t, s, rows...)
	look := protocol.Look{Queue: rows[0].Queue, Kinds: []string{rows[0].Kind}, To: t0.Add(5 * time.Second), Limit: 3}
	got, pages := walk(t, s, look)
	want := slices.Clone(rows[:10])
	want = slices.DeleteFunc(want, func(r task.Task) bool { return r.Queue != look.Queue || r.Kind != look.Kinds[0] })
	byTime := func(a, b task.Task) int {
		if c := a.RunAt.Compare(b.RunAt); c != 0 {
			return c
		}
		return a.ID.Compare(b.ID)
	}
	slices.SortFunc(want, byTime)
	if d := cmp.Diff(ids(want), got); d != "" {
		t.Errorf("look (-want +got):\n%s", d)
	}
	if pages != 4 { // ten rows, three at a time, also those that are left out
		t.Errorf("%d pages, want 4", pages)
	}
	back := look
	back.Back = true
	slices.Reverse(want)
	if got, pages = walk(t, s, back); pages != 4 || !slices.Equal(got, ids(want)) {
		t.Errorf("a look back: %d pages, %v, want 4, %v", pages, got, ids(want))
	}
	back.From, back.To = t0.Add(2*time.Second), t0.Add(4*time.Second)
	within := slices.DeleteFunc(want, func(r task.Task) bool { return r.RunAt.Before(back.From) || !r.RunAt.Before(back.To) })
	if got, _ = walk(t, s, back); len(got) == 0 || !slices.Equal(got, ids(within)) {
		t.Errorf("a look back in a span: %v, want %v", got, ids(within))
	}
	look.Kinds, look.From = []string{rows[0].Kind, "other"}, t0.Add(2*time.Second)
	want = slices.Clone(rows[4:10])
	want = slices.DeleteFunc(want, func(r task.Task) bool { return r.Queue != look.Queue })
	slices.SortFunc(want, byTime)
	got, _ = walk(t, s, look)
	if d := cmp.Diff(ids(want), got); d != "" {
		t.Errorf("look from a time, for two kinds (-want +got):\n%s", d)
	}
}

// Shares of one queue's partitions have no task in common, and all together.
func TestSharesDivideTheTasks(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	rows := inserted(t, s, newTasks(t, 300)...)
	look := protocol.Look{Queue: rows[0].Queue, Kinds: []string{rows[0].Kind}, To: t0.Add(1000 * time.Hour), Limit: 1000}
	of := map[task.ID]int{}
	for _, mine := range [][]int{{0, 3}, {1}, {2, 4}} {
		look.Share = protocol.Share{Of: 5, Mine: mine}
		got, _ := walk(t, s, look)
		if len(got) < 20*len(mine) {
			t.Errorf("partitions %v have %d of 300 tasks", mine, len(got))
		}
		for _, id := range got {
			of[id]++
		}
	}
	look.Share = protocol.Share{Of: 5, Mine: []int{0, 1, 2, 3, 4}}
	if all, _ := walk(t, s, look); len(all) != 300 || len(of) != 300 {
		t.Errorf("the shares have %d tasks, one of all partitions %d; want 300", len(of), len(all))
	}
	for id, n := range of {
		if n != 1 {
			t.Errorf("task %v is in %d shares", id, n)
		}
	}
}

// A look examines its page in the index alone, and then reads rows by their ids.
func TestPlanOfALook(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	rows := filled(t, s, 3000)
	at := func(n int) protocol.Cursor {
		return protocol.Cursor{At: t0.Add(time.Duration(n) * time.Second), ID: rows[n].ID}
	}
	look := protocol.Look{
		Queue: "default", Kinds: []string{"a", "b"}, Share: protocol.Share{Of: 8, Mine: []int{1, 2}}, To: t0.Add(time.Hour), After: at(2500), Limit: 100,
	}
	back := look
	back.Back = true
	for _, l := range []struct {
		protocol.Look
		end protocol.Cursor
	}{{look, protocol.Cursor{}}, {look, at(2600)}, {back, protocol.Cursor{}}, {back, at(2400)}} {
		text, args := store.LookSQL(l.Look, l.end)
		e := &explainer{DB: s.DB()}
		must(t, exec(e, text, args...))
		checkPage(t, e)
	}
}

// arriving is a connection on which rows arrive after a page's end was read.
type arriving struct {
	*proxied
	arrive func()
}

func (a arriving) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := a.proxied.QueryContext(ctx, query, args)
	if strings.Contains(query, "OFFSET") {
		a.arrive()
	}
	return rows, err
}

type arrivals struct {
	driver.Connector
	arrive func()
}

func (a arrivals) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := a.Connector.Connect(ctx)
	return arriving{&proxied{Conn: c, meddle: func(statement string) (string, error) { return statement, nil }}, a.arrive}, err
}

// Rows that are inserted before a page's end, after it was read, push no row out of the page.
func TestPagesKeepTheirLastRows(t *testing.T) {
	t.Parallel()
	direct, dsn := openMySQLStore(t, store.Options{})
	arrive := func() {}
	s, err := store.OpenThrough(dsn, store.Options{}, func(c driver.Connector) driver.Connector {
		return arrivals{c, func() { arrive() }}
	})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	first := 100 * time.Second
	var rows []task.Task
	for i := range 4 {
		rows = append(rows, newTask(t, "ann", first+time.Duration(i)*time.Second))
	}
	rows = inserted(t, direct, rows...)
	arrive = func() {
		first -= time.Second
		rows = append(rows, inserted(t, direct, newTask(t, "ann", first))...)
	}
	to := t0.Add(time.Hour)
	for name, page := range map[string]func(after protocol.Cursor) ([]task.Task, protocol.Cursor, error){
		"look": func(after protocol.Cursor) ([]task.Task, protocol.Cursor, error) {
			return s.Look(t.Context(), protocol.Look{Queue: rows[0].Queue, Kinds: []string{rows[0].Kind}, To: to, After: after, Limit: 2})
		},
		"overdue": func(after protocol.Cursor) ([]task.Task, protocol.Cursor, error) {
			return s.PendingExcept(t.Context(), []string{"paused"}, time.Time{}, to, after, 2)
		},
		"walk": func(after protocol.Cursor) ([]task.Task, protocol.Cursor, error) {
			return s.Walk(t.Context(), store.WalkQuery{To: to, After: after, Scan: 2, Limit: 10})
		},
	} {
		stood, seen := rows, map[task.ID]int{}
		for after := (protocol.Cursor{}); ; {
			found, next, err := page(after)
			must(t, err)
			for _, row := range found {
				seen[row.ID]++
			}
			if after = next; next == (protocol.Cursor{}) {
				break
			}
		}
		for _, row := range stood {
			if seen[row.ID] != 1 {
				t.Errorf("%s: the row due in %v seen %d times, want once", name, row.RunAt.Sub(t0), seen[row.ID])
			}
		}
	}
}
