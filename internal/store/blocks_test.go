package store_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

func block(t testing.TB, s *store.Store, q sqlx.ExtContext, owner string) {
	t.Helper()
	value[bool](t)(s.Block(t.Context(), q, task.BlockedOwner{Owner: owner, At: t0, Actor: "ann@host"}))
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *store.Store) {
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
			for owner, wantNew := range map[string]bool{"ann": true, "bob": true, "Zoë": true} {
				b := task.BlockedOwner{Owner: owner, At: t0, Actor: "ann@host"}
				isNew, again := value[bool](t)(s.Block(ctx, tx, b)), value[bool](t)(s.Block(ctx, tx, b))
				if isNew != wantNew || again {
					t.Errorf("block %s: new is %v, then %v", owner, isNew, again)
				}
			}
		})
		got := value[[]task.BlockedOwner](t)(s.BlockedOwners(t.Context(), "Zoë", 1))
		if d := cmp.Diff([]task.BlockedOwner{{Owner: "ann", At: t0, Actor: "ann@host"}}, got); d != "" {
			t.Errorf("page of blocked owners (-want +got):\n%s", d)
		}
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
			if !value[bool](t)(s.LockBlock(ctx, tx, "ann")) || value[bool](t)(s.LockBlock(ctx, tx, "carl")) {
				t.Error("LockBlock is wrong about ann, or about carl")
			}
			must(t, s.Unblock(ctx, tx, "ann"))
		})
		for owner, want := range map[string]string{"ann": "", "ANN": "", "bob": "bob", "Zoë": "Zoë"} {
			if _, got, err := s.NowAndBlocked(t.Context(), nil, []string{"nobody", owner}); got != want || err != nil {
				t.Errorf("of nobody and %s, %q is blocked, %v; want %q", owner, got, err, want)
			}
		}
		rows := inserted(t, s, newTask(t, "ann", 0), newTask(t, "bob", 0))
		since := value[[]string](t)(s.LeftOfBlocked(t.Context(), t0, "", 10)) // Zoë has nothing
		later := value[[]string](t)(s.LeftOfBlocked(t.Context(), t0.Add(time.Millisecond), "", 10))
		if d := cmp.Diff([]string{"bob"}, since); d != "" || len(later) != 0 {
			t.Errorf("left of owners blocked since the moment (-want +got):\n%s\nsince a later one: %v", d, later)
		}
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
			locked, blocked, _, err := s.LockToRun(ctx, tx, ids(rows))
			must(t, err)
			if d := cmp.Diff(map[task.ID]protocol.Bar{rows[1].ID: protocol.OwnerBlocked}, blocked); d != "" || len(locked) != 2 {
				t.Errorf("%d rows locked, of 2; blocked (-want +got):\n%s", len(locked), d)
			}
		})
	})
}

// A worker must not be in the way of UnblockOwner, nor wait for a block that is not committed.
func TestLockToRunLocksNoBlock(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	block(t, s, s.DB(), "ann")
	rows := inserted(t, s, newTask(t, "ann", 0), newTask(t, "bob", 0))
	service, worker := begin(t, s), begin(t, s)
	block(t, s, service, "bob")
	_, blocked, _, err := s.LockToRun(t.Context(), worker, ids(rows))
	must(t, err)
	if blocked[rows[0].ID] != protocol.OwnerBlocked || blocked[rows[1].ID] != protocol.NoBar {
		t.Errorf("blocked are %v, want the one of ann", blocked)
	}
	must(t, s.Unblock(t.Context(), service, "ann")) // waits for nobody, or fails after the lock wait
	if n := pipelinetest.LockWaits(t, s.DB()); n != 0 {
		t.Errorf("%d transactions wait, want none", n)
	}
}

// The server refuses the whole statement, whatever its mode makes of bad values.
func TestAutocommitInsertForABlockedOwner(t *testing.T) {
	t.Parallel()
	for name, parameters := range map[string]string{"strict": "", "not strict": "?sql_mode=%27%27"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := lent(t, pipelinetest.MySQL(t), parameters, store.Options{})
			value[sql.Result](t)(s.DB().Exec("INSERT INTO duetime_blocks (owner, at) VALUES ('ann', 0)")) // by another process
			specs := []task.Spec{
				kind.New("bob", 1, task.At(t0)), kind.New("carl", 1, task.In(time.Hour)), kind.New("ann", 1, task.In(time.Hour)),
			}
			for n := 1; n <= len(specs); n++ {
				made := value[[]task.Task](t)(s.InsertAutocommit(t.Context(), specs[len(specs)-n:]))
				if made != nil {
					t.Errorf("%d rows written of %d, one of a blocked owner", len(made), n)
				}
			}
			if made := value[[]task.Task](t)(s.InsertAutocommit(t.Context(), specs[:2])); len(made) != 2 {
				t.Errorf("%d rows written for owners who are not blocked, want 2", len(made))
			}
		})
	}
}

// A call for the owner waits for a block that is not committed, one for another owner does not.
func TestAutocommitInsertBesideABlock(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{LockWait: time.Second})
	block(t, s, begin(t, s), "ann")
	if made, err := s.InsertAutocommit(t.Context(), []task.Spec{kind.New("bob", 1, task.In(time.Hour))}); len(made) != 1 {
		t.Errorf("for bob: %d rows written, %v; want 1", len(made), err)
	}
	if made, err := s.InsertAutocommit(t.Context(), []task.Spec{kind.New("ann", 1, task.In(time.Hour))}); number(err) != 1205 {
		t.Errorf("for ann: %d rows written, %v; want a lock wait", len(made), err)
	}
}

// A process that found nobody blocked does not ask at each INSERT: after AwaitBlocks it has asked again.
func TestAwaitBlocks(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	bob, ann := kind.New("bob", 1, task.In(time.Hour)), kind.New("ann", 1, task.In(time.Hour))
	if made := value[[]task.Task](t)(s.InsertAutocommit(t.Context(), []task.Spec{bob})); len(made) != 1 {
		t.Fatalf("%d rows written while nobody is blocked, want 1", len(made))
	}
	block(t, s, s.DB(), "ann")
	s.AwaitBlocks(t.Context())
	if made := value[[]task.Task](t)(s.InsertAutocommit(t.Context(), []task.Spec{ann})); made != nil {
		t.Errorf("%d rows written for a blocked owner, want none", len(made))
	}
}
