package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// statementsEnv is how long TestRandomStatements runs, such as 10m. By default it plays a few rounds.
const statementsEnv = "DUETIME_TEST_STATEMENTS"

// Statements that reach beyond rows, by what they may do to batch-mates. %s stands for a savepoint's name.
var (
	nesting  = []string{"SAVEPOINT %s", "ROLLBACK TO %s", "ROLLBACK TO SAVEPOINT %s", "ROLLBACK WORK TO %s", "RELEASE SAVEPOINT %s"}
	names    = []string{"a", "A", "`a`", "b", "`a b`", "`á`", "savepoint", "duetime_stands"}
	changing = []string{
		"SET time_zone = '+08:00'", "SET timestamp = 86400", "SET sql_safe_updates = 1", "SET foreign_key_checks = 0", "SET @x = 1",
		"SET NAMES latin1", "SET SESSION TRANSACTION READ ONLY", "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'", "SET completion_type = 1",
		"SET unique_checks = 0", "SET STATEMENT max_statement_time = 5 FOR SELECT 1", "SET STATEMENT time_zone = '+08:00' FOR SELECT 1",
		"CREATE TEMPORARY TABLE counters (a INT)", "DROP TEMPORARY TABLE IF EXISTS counters", "CREATE OR REPLACE TEMPORARY TABLE temp (a INT)",
		"CALL zone()", "CALL adds()", "CALL nests()", "SELECT GET_LOCK('mine', 0)", "SELECT 1 INTO @x", "HANDLER scratch OPEN", "HANDLER scratch CLOSE",
		"PREPARE p FROM 'DO 1'", "EXECUTE p", "DEALLOCATE PREPARE p", "SET ROLE NONE", "SET lc_time_names = 'de_DE'",
	}
	ending = []string{
		"COMMIT", "COMMIT WORK", "COMMIT AND CHAIN", "COMMIT AND NO CHAIN RELEASE", "ROLLBACK", "ROLLBACK WORK", "ROLLBACK AND CHAIN", "BEGIN",
		"BEGIN WORK", "START TRANSACTION", "START TRANSACTION WITH CONSISTENT SNAPSHOT", "START TRANSACTION READ ONLY", "XA START 'x'",
		"SET autocommit = 1", "SET @@session.autocommit = ON", "SET SESSION autocommit = 0", "CREATE TABLE IF NOT EXISTS made (a INT)",
		"DROP TABLE IF EXISTS made", "ALTER TABLE scratch COMMENT 'x'", "TRUNCATE scratch", "TRUNCATE TABLE scratch", "CREATE OR REPLACE VIEW seen AS SELECT 'temporary'",
		"RENAME TABLE scratch TO scratched, scratched TO scratch", "ANALYZE TABLE scratch", "OPTIMIZE TABLE scratch", "CHECK TABLE scratch", "REPAIR TABLE scratch",
		"LOCK TABLES scratch READ", "UNLOCK TABLES", "FLUSH TABLES scratch", "LOAD INDEX INTO CACHE scratch", "SET DEFAULT ROLE NONE TO root@'%%'",
		"SET PASSWORD = ''", "CALL commits()", "CALL rolls_back()", "EXECUTE IMMEDIATE 'COMMIT'", "PREPARE q FROM 'COMMIT'", "EXECUTE q",
		"BEGIN NOT ATOMIC COMMIT; END", "SET STATEMENT max_statement_time = 5 FOR TRUNCATE scratch", "CREATE OR REPLACE PROCEDURE none() DO 1",
		"DROP PROCEDURE IF EXISTS none", "GRANT SELECT ON *.* TO root@'%%'", "CREATE INDEX IF NOT EXISTS i ON scratch (a)", "FLUSH STATUS",
	}
	plain = []string{
		"DO 1", "SELECT 1", "INSERT INTO scratch VALUES (1)", "UPDATE scratch SET a = a + 1", "DELETE FROM scratch", "SELECT * FROM scratch FOR UPDATE",
		"INSERT INTO scratch SELECT 2", "SELECT 'COMMIT; ROLLBACK'", "SHOW TABLES",
	}
)

// chatter is what a handler says, and how.
type chatter struct {
	said  []string
	how   []int // the method of Tx
	heeds bool  // an error of a statement is the handler's
	looks int   // before which of its statements it makes and reads tasks; beyond them: never
	fails bool
	ends  bool // it may have committed by itself
}

func chat(random *rand.Rand) *chatter {
	c := &chatter{heeds: random.IntN(2) == 0, fails: random.IntN(8) == 0, looks: random.IntN(6)}
	pick := func() string {
		from := plain
		switch n := random.IntN(10); {
		case n < 3:
			from = nesting
		case n < 5:
			from = changing
		case n < 7:
			from, c.ends = ending, true
		}
		text := from[random.IntN(len(from))]
		if strings.Contains(text, "%s") {
			return fmt.Sprintf(text, names[random.IntN(len(names))])
		}
		return strings.ReplaceAll(text, "%%", "%")
	}
	for range random.IntN(5) {
		text := pick()
		for random.IntN(4) == 0 {
			text += "; " + pick()
		}
		c.said, c.how = append(c.said, disguise(random, text)), append(c.how, random.IntN(4))
	}
	return c
}

// disguise says the same in other letters, with comments between the words.
func disguise(random *rand.Rand, text string) string {
	blanks := []string{" ", " ", " ", "\n", "\t", " /* a; COMMIT */ ", " -- b\n", " # c\n", "/**/ "}
	words := strings.Split(text, " ")
	var b strings.Builder
	for i, word := range words {
		if i > 0 {
			b.WriteString(blanks[random.IntN(len(blanks))])
		}
		b.WriteString(word)
	}
	text = b.String()
	switch random.IntN(8) {
	case 0:
		text = "-- name: Say :exec\n" + text
	case 1:
		text = "/*! " + text + " */"
	case 2:
		text = "; " + text + ";"
	case 3:
		text = strings.ToLower(text)
	}
	return text
}

// say says one of the chatter's texts by one of Tx's methods.
func (c *chatter) say(ctx context.Context, tx *worker.Tx, i int) error {
	switch c.how[i] {
	case 0:
		rows, err := tx.QueryContext(ctx, c.said[i])
		return toEnd(rows, err)
	case 1:
		s, err := tx.PrepareContext(ctx, c.said[i])
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		rows, err := s.QueryContext(ctx)
		return toEnd(rows, err)
	default:
		_, err := tx.ExecContext(ctx, c.said[i])
		return err
	}
}

// toEnd reads a result to its end.
func toEnd(rows *sql.Rows, err error) error {
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
	}
	return rows.Err()
}

const sessionOf = "SELECT CONCAT_WS(' ', @@time_zone, @@timestamp > 1000000000, @@sql_safe_updates, @@foreign_key_checks, @@unique_checks, @@sql_mode, " +
	"@@lc_time_names, @@completion_type, @@character_set_client, (SELECT COUNT(*) FROM counters WHERE name = 'x'))"

// Handlers that say whatever servers take share batches: each effect comes once with its task's end, and none without. Only a
// handler that has itself committed may have effects without an end.
func TestRandomStatements(t *testing.T) {
	t.Parallel()
	w := multiStatements(t)
	for _, made := range []string{
		"CREATE TABLE scratch (a INT)", "CREATE PROCEDURE zone() SET time_zone = '+08:00'", "CREATE PROCEDURE adds() INSERT INTO scratch VALUES (1)",
		"CREATE PROCEDURE commits() COMMIT", "CREATE PROCEDURE rolls_back() ROLLBACK",
		"CREATE PROCEDURE nests() BEGIN SAVEPOINT a; INSERT INTO scratch VALUES (1); ROLLBACK TO a; END",
	} {
		w.store.Exec(made)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for round, until := 0, deadline(t); round < 30 || time.Now().Before(until); round++ {
		w.chatterRound(random)
		if t.Failed() {
			return
		}
	}
}

func deadline(t *testing.T) time.Time {
	t.Helper()
	long := os.Getenv(statementsEnv)
	if long == "" {
		return time.Time{}
	}
	d, err := time.ParseDuration(long)
	pipelinetest.Must(t, err)
	return time.Now().Add(d)
}

func (w *world) chatterRound(random *rand.Rand) {
	w.t.Helper()
	kind := task.NewKind[payload]("chatter", task.MaxAttempts(2), quickly)
	tasks := w.due(kind, 2+random.IntN(5))
	chatters := map[task.ID]*chatter{}
	for _, made := range tasks {
		chatters[made.ID] = chat(random)
	}
	session, puts := "", len(w.index.Puts())
	mux := worker.NewMux()
	worker.Handle(mux, kind, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		var found string
		if err := tx.GetContext(ctx, &found, sessionOf); err != nil {
			return err
		}
		if session == "" {
			session = found
		}
		want(w.t, "session", found, session)
		return w.chatter(ctx, tx, tk, chatters[tk.ID])
	})
	wk := w.worker(mux, engine.Config{})
	open := tasks
	for tries := 0; len(open) > 0 && tries < 100; tries++ {
		if tries < 5 {
			w.pass(wk, open...)
		} else {
			w.pass(wk, open[tries%len(open)])
		}
		open = nil
		for _, made := range tasks {
			if row := w.store.Row(made.ID); row.State == task.Pending {
				open = append(open, row)
			}
		}
	}
	for _, made := range tasks {
		w.judgeChatter(made.ID, chatters[made.ID])
	}
	for _, put := range w.index.Puts()[puts:] {
		if rows, err := w.store.Get(w.t.Context(), nil, []task.ID{put.ID}); err != nil || len(rows) == 0 || rows[0].Version < put.Version {
			w.t.Errorf("task %s was put, and never was", put.ID)
		}
	}
	if w.t.Failed() {
		for _, made := range tasks {
			w.t.Logf("%s: %q %+v: %s", made.ID, chatters[made.ID].said, *chatters[made.ID], w.store.Row(made.ID).LastError)
		}
	}
}

// chatter says what it has to say between two effects, with a follow-up.
func (w *world) chatter(ctx context.Context, tx *worker.Tx, tk worker.Task[payload], c *chatter) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?, 'before')", tk.ID.String()); err != nil {
		return err
	}
	for i := range c.said {
		if i == c.looks {
			if _, err := tx.Schedule(ctx, meal.New("side "+tk.ID.String(), payload{}, task.In(time.Hour))); err != nil {
				return err
			}
			if _, err := tx.Get(ctx, tk.ID); err != nil {
				return err
			}
		}
		if err := c.say(ctx, tx, i); err != nil && c.heeds {
			return err
		}
	}
	if _, err := tx.Schedule(ctx, meal.New("follow "+tk.ID.String(), payload{}, task.In(time.Hour))); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?, 'after')", tk.ID.String()); err != nil {
		return err
	}
	if c.fails {
		return errors.New("sick")
	}
	return nil
}

func (w *world) judgeChatter(id task.ID, c *chatter) {
	w.t.Helper()
	row := w.store.Row(id)
	before := w.store.Number("SELECT COUNT(*) FROM effects WHERE word = 'before' AND task_id = ?", id.String())
	after := w.store.Number("SELECT COUNT(*) FROM effects WHERE word = 'after' AND task_id = ?", id.String())
	follows := w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE owner = ?", "follow "+id.String())
	switch {
	case row.State == task.Done && !c.ends:
		want(w.t, "effects of a done task", after, 1)
		want(w.t, "follow-ups of a done task", follows, 1)
		want(w.t, "first effects twice", before > 1, false)
	case row.State == task.Done:
		want(w.t, "effects of a done task that may have committed", after >= 1, true)
	case row.State == task.Dead && !c.ends:
		want(w.t, "effects of a dead task", before+after+follows, 0)
	case row.State != task.Dead:
		w.t.Errorf("task %s is %v after 100 passes", id, row.State)
	}
}
