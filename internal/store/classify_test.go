package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

func TestRefusedAndUnavailable(t *testing.T) {
	t.Parallel()
	s, dsn := openMySQLStore(t, store.Options{})
	must(t, exec(s.DB(), "CREATE USER IF NOT EXISTS 'known'@'127.0.0.1' IDENTIFIED BY 'right'"))
	ping := func(dsn string) error { return opened(t, dsn, store.Options{}).Ping(t.Context()) }
	for name, dsn := range map[string]string{
		"wrong password": strings.Replace(dsn, "root@", "known:wrong@", 1),
		"unknown user":   strings.Replace(dsn, "root@", "nobody:x@", 1),
		"no rights":      strings.Replace(dsn, "root@", "known:right@", 1),
	} {
		if err := ping(dsn); !store.Classify(err).Refused() || s.Unavailable(err) {
			t.Errorf("%s: %v, want refused", name, err)
		}
	}
	for name, dsn := range map[string]string{
		"unknown schema": dsn + "_not",
		"server away":    "root@tcp(127.0.0.1:1)/x",
	} {
		if err := ping(dsn); store.Classify(err).Refused() || !s.Unavailable(err) || s.Retryable(err) {
			t.Errorf("%s: %v, want unavailable", name, err)
		}
	}
	if _, err := store.Open("root@nonsense", store.Options{}); err == nil {
		t.Error("a DSN without a slash was accepted")
	}
}

// A server without space counts as away: it gives the same answer when a table in memory has reached its limit.
func TestFullIsUnavailable(t *testing.T) {
	t.Parallel()
	counted := 0
	s, _ := openMySQLStore(t, store.Options{OnFull: func() { counted++ }})
	must(t, exec(s.DB(), "CREATE TABLE small (text CHAR(255)) ENGINE=MEMORY MAX_ROWS=100"))
	err := exec(s.DB(), "INSERT INTO small SELECT REPEAT('x', 255) FROM "+pipelinetest.Numbers(1, 1000))
	if number(err) != 1114 || !s.Unavailable(err) || s.Retryable(err) || store.Classify(err).Refused() {
		t.Errorf("%v, want unavailable", err)
	}
	if counted != 1 {
		t.Errorf("%d answers were counted, want 1", counted)
	}
	tx := begin(t, s)
	inserted := newTasks(t, 1)
	value[[]task.Task](t)(s.Insert(t.Context(), tx, inserted))
	_ = exec(tx, "INSERT INTO small SELECT REPEAT('x', 255) FROM "+pipelinetest.Numbers(1, 1000)) // ignored, as a handler may ignore it
	err = tx.Commit()
	if !errors.Is(err, store.ErrPoisoned) || !s.Unavailable(err) || s.Retryable(err) || s.Ambiguous(err) {
		t.Errorf("COMMIT: %v, want it refused as unavailable", err)
	}
	if left := value[[]task.Task](t)(s.Get(t.Context(), nil, ids(inserted))); len(left) > 0 {
		t.Error("what came before the full disk was committed")
	}
}

// A server that stops under open connections is unavailable, and the pool recovers when it is back.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnMySQL(t)
	s := migrated(t, opened(t, server.NewSchema(t), store.Options{}))
	tx := begin(t, s)
	value[[]task.Task](t)(s.Insert(t.Context(), tx, newTasks(t, 1)))
	must(t, server.Kill())
	if err := s.Ping(t.Context()); !s.Unavailable(err) {
		t.Errorf("ping: %v, want unavailable", err)
	}
	if err := tx.Commit(); err == nil || s.Unavailable(err) == false {
		t.Errorf("COMMIT: %v, want unavailable", err)
	}
	must(t, server.Start())
	inserted(t, s, newTasks(t, 1)...)
}
