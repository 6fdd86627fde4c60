package duetimetest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/pkg/duetimetest"
	"github.com/duetime/duetime/pkg/encrypt"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

func TestRequireScheduled(t *testing.T) {
	t.Parallel()
	shops(t, func(t *testing.T, s *shop) {
		due := s.now.Add(10 * time.Minute)
		s.schedule(
			expire.New("ada", Expire{Order: 42}, task.At(due), task.Subject("o42"), task.Label("city", "Rome"), task.Label("tier", "gold")),
			expire.New("ada", Expire{Order: 7}, task.At(due.Add(time.Minute))),
		)
		got := duetimetest.RequireScheduled(t, s.db, expire, "ada",
			duetimetest.DueAt(due), duetimetest.DueIn(10*time.Minute, time.Minute), duetimetest.Subject("o42"),
			duetimetest.DueBetween(s.now, due.Add(time.Second)), duetimetest.Payload(map[string]int{"order": 42}),
			duetimetest.Queue("default"), duetimetest.Label("tier", "gold"), duetimetest.Label("city", "Rome"))
		if got.Payload.Order != 42 || got.Subject != "o42" {
			t.Errorf("got %+v", got)
		}
		if got := duetimetest.RequireScheduled(t, s.db, expire, "ada"); got.Payload.Order != 42 {
			t.Errorf("got order %d first, want 42", got.Payload.Order)
		}
		if got := duetimetest.Scheduled(t, s.db, expire, "ada"); len(got) != 2 || got[1].Payload.Order != 7 {
			t.Errorf("got %+v, want both", got)
		}
		duetimetest.RequireNotScheduled(t, s.db, expire, "bob")
		duetimetest.RequireNotScheduled(t, s.db, remind, "ada")
		duetimetest.RequireNotScheduled(t, s.db, expire, "ada", duetimetest.Subject("o43"))
		duetimetest.RequireNotScheduled(t, s.db, expire, "ada", duetimetest.Label("tier", "tin"))
	})
}

// Payloads are compared as their kind decodes them.
func TestRequireEncrypted(t *testing.T) {
	t.Parallel()
	s := onMySQL(t)
	secret := task.NewKind[Expire]("order.secret", encrypt.Payloads(func(string) (encrypt.Key, error) {
		return encrypt.Key{ID: "k1", Secret: make([]byte, 32)}, nil
	}))
	s.schedule(secret.New("ada", Expire{Order: 42}, task.In(time.Hour)))
	if got := duetimetest.RequireScheduled(t, s.db, secret, "ada", duetimetest.Payload(Expire{Order: 42})); got.Payload.Order != 42 {
		t.Errorf("got %+v", got)
	}
	duetimetest.RequireNotScheduled(t, s.db, secret, "ada", duetimetest.Payload(Expire{Order: 43}))
}

// A renamed kind's tasks are found and run under its old name too.
func TestRequireARenamedKind(t *testing.T) {
	t.Parallel()
	s := onMySQL(t)
	expired := task.NewKind[Expire]("order.expired", task.Was(expire.Name()))
	s.schedule(expire.New("ada", Expire{Order: 42}, task.In(0)))
	if got := duetimetest.RequireScheduled(t, s.db, expired, "ada", duetimetest.Payload(Expire{Order: 42})); got.Payload.Order != 42 {
		t.Errorf("got %+v", got)
	}
	if got := duetimetest.Scheduled(t, s.db, expired, "ada"); len(got) != 1 {
		t.Errorf("scheduled are %+v", got)
	}
	mux := worker.NewMux()
	worker.Handle(mux, expired, func(context.Context, *worker.Tx, worker.Task[Expire]) error { return nil })
	duetimetest.Fire(t, s.db, mux, time.Now().Add(time.Minute))
	duetimetest.RequireNotScheduled(t, s.db, expired, "ada")
}

func TestRequireScheduledSaysWhatIsThere(t *testing.T) {
	t.Parallel()
	s := onMySQL(t)
	due := s.now.Add(9*time.Minute + 30*time.Second) // a part of it may have passed
	s.schedule(expire.New("ada", Expire{Order: 42}, task.At(due), task.Subject("o42"), task.Label("city", "Rome")), mail.New("ada", Expire{Order: 1}, task.At(due)))
	for name, c := range map[string]struct {
		fn   func(t testing.TB)
		want []string
	}{
		"wrong task": {
			func(t testing.TB) {
				duetimetest.RequireScheduled(t, s.db, expire, "ada", duetimetest.Subject("o43"),
					duetimetest.Payload(Expire{Order: 43}), duetimetest.DueIn(time.Minute, time.Second), duetimetest.DueAt(s.now),
					duetimetest.Label("tier", "gold"), duetimetest.Queue("slow"), duetimetest.DueBetween(s.now, s.now.Add(time.Second)))
			},
			[]string{
				`ada has no pending order.expire with subject "o43", payload {"order":43}, due in 1m0s ± 1s`,
				`has subject "o42"`, `has payload {"order":42}`, "is due in 9m", `is on queue "default"`, "order.mail", `has labels "city=Rome"`,
			},
		},
		"no task": {
			func(t testing.TB) { duetimetest.RequireScheduled(t, s.db, expire, "bob") },
			[]string{"bob has no pending order.expire", "pending are: none"},
		},
		"one too many": {
			func(t testing.TB) {
				duetimetest.RequireNotScheduled(t, s.db, expire, "ada", duetimetest.Subject("o42"))
			},
			[]string{`ada has a pending order.expire with subject "o42", want none`, "about o42"},
		},
		"no owner": {
			func(t testing.TB) { duetimetest.RequireScheduled(t, s.db, expire, "") },
			[]string{"owner must be"},
		},
	} {
		got := refusal(t, c.fn)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %q, want %q in it", name, got, want)
			}
		}
	}
}
