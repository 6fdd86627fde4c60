package main_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// counts is the answer of verify --json: these keys and no others.
func counts(some map[string]int) map[string]int {
	all := map[string]int{
		"pending": 0, "done": 0, "cancelled": 0, "dead": 0, "overdue": 0,
		"missing": 0, "extra": 0, "stuck": 0, "premature": 0, "invalid": 0, "lost": 0, "duplicate": 0, "early": 0,
	}
	for key, n := range some {
		all[key] = n
	}
	return all
}

// wantVerify runs verify and wants this exit code and answer.
func (d deployment) wantVerify(t *testing.T, what string, code int, want map[string]int) {
	t.Helper()
	got := d.run(t, nil, "verify", "--json")
	if diff := cmp.Diff(counts(want), decode[map[string]int](t, got)); diff != "" || got.code != code {
		t.Errorf("%s: exit code %d, want %d; (-want +got):\n%s%s", what, got.code, code, diff, got.err)
	}
}

// keys names the two sets that hold the task's entries.
func (d deployment) keys(made task.Task) (due, owner string) {
	shard := d.namespace + ":{" + strconv.Itoa(made.Shard) + "}:"
	return shard + "due", shard + "owner:" + made.Owner
}

// entry reads the only entry of a set.
func (d deployment) entry(t *testing.T, key string) redis.Z {
	t.Helper()
	all, err := d.redis.ZRangeWithScores(t.Context(), key, 0, -1).Result()
	pipelinetest.Must(t, err)
	if len(all) != 1 {
		t.Fatalf("%s has %d entries, want 1", key, len(all))
	}
	return all[0]
}

func TestVerify(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	d.wantVerify(t, "nothing", 0, nil)
	made := d.schedule(t, "ann", 5*time.Hour)
	gone := d.schedule(t, "bob", 6*time.Hour)
	_, err := d.client.Cancel(t.Context(), gone.ID)
	pipelinetest.Must(t, err)
	d.wantVerify(t, "as it should be", 0, map[string]int{"pending": 1, "cancelled": 1})
	plain := d.wantCode(t, 0, "verify")
	if !strings.Contains(plain.out, "pending    1\n") || !strings.Contains(plain.out, "missing    0\n") {
		t.Errorf("without --json: %s", plain.out)
	}

	dueKey, ownerKey := d.keys(made)
	for _, key := range []string{dueKey, ownerKey} {
		stands := d.entry(t, key)
		pipelinetest.Must(t, d.redis.ZRem(t.Context(), key, stands.Member).Err())
		d.wantVerify(t, "absent from "+key, 1, map[string]int{"pending": 1, "cancelled": 1, "missing": 1})
		moved := redis.Z{Member: stands.Member, Score: stands.Score - 60_000}
		pipelinetest.Must(t, d.redis.ZAdd(t.Context(), key, moved).Err())
		d.wantVerify(t, "at another time in "+key, 1, map[string]int{"pending": 1, "cancelled": 1, "missing": 1, "extra": 1})
		pipelinetest.Must(t, d.redis.ZAdd(t.Context(), key, stands).Err())
	}
	d.wantVerify(t, "mended", 0, map[string]int{"pending": 1, "cancelled": 1})

	// An extra entry: its task has ended.
	ghostDue, ghostOwner := d.keys(gone)
	stands := d.entry(t, dueKey)
	member := strings.ReplaceAll(stands.Member.(string), "ann", "bob")
	copy16 := string(gone.ID[:]) + member[len(gone.ID):]
	for _, key := range []string{ghostDue, ghostOwner} {
		pipelinetest.Must(t, d.redis.ZAdd(t.Context(), key, redis.Z{Member: copy16, Score: stands.Score}).Err())
		d.wantVerify(t, "a ghost in "+key, 1, map[string]int{"pending": 1, "cancelled": 1, "extra": 1})
		pipelinetest.Must(t, d.redis.ZRem(t.Context(), key, copy16).Err())
	}
	pipelinetest.Must(t, d.redis.ZAdd(t.Context(), dueKey, redis.Z{Member: "junk", Score: stands.Score}).Err())
	d.wantVerify(t, "junk", 1, map[string]int{"pending": 1, "cancelled": 1, "extra": 1})
}

func TestVerifyFindsWhatIsOverdue(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	d.schedule(t, "ann", 0)
	pipelinetest.Await(t, "the task to be overdue", func() bool {
		return decode[map[string]int](t, d.run(t, nil, "verify", "--json"))["overdue"] == 1
	})
	d.wantVerify(t, "overdue", 1, map[string]int{"pending": 1, "overdue": 1})
}

func TestVerifyReadsTheJournal(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	pipelinetest.Must(t, pet.CreateTables(t.Context(), d.db))
	pending := d.schedule(t, "ann", time.Hour).ID.String()
	now := time.Now().UnixMilli()
	write := func(event, id string, due, at int) { // in ms
		t.Helper()
		_, err := d.db.Exec(`INSERT INTO pet_journal (pet_id, owner, event, task_id, version, due_at_ms, at_ms) VALUES (1, 'ann', ?, ?, 1, ?, ?)`,
			event, id, now+int64(due), now+int64(at))
		pipelinetest.Must(t, err)
	}
	id := func(n string) string { return "01900000-0000-7000-8000-00000000000" + n }
	write("fed", pending, 100, 50) // the task has a pending row
	write("fed", id("1"), 100, 50)
	write("meal_finished", id("1"), 100, 100)
	write("fed", id("2"), 100, 50)
	write("meal_cancelled", id("2"), 100, 60)
	d.wantVerify(t, "a journal in order", 0, map[string]int{"pending": 1})
	write("auto_fed", id("3"), 100, 50)
	d.wantVerify(t, "a start without end and row", 1, map[string]int{"pending": 1, "lost": 1})
	write("meal_finished", id("3"), 100, 99)
	d.wantVerify(t, "an effect before its time", 1, map[string]int{"pending": 1, "early": 1})
	write("meal_finished", id("3"), 100, 120)
	d.wantVerify(t, "and a second one", 1, map[string]int{"pending": 1, "early": 1, "duplicate": 1})
}

// A figure that was not checked is reported so: a 0 would be a promise.
func TestVerifySaysWhatItCannotSee(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	wantUnchecked := func(what, why string, env []string) {
		t.Helper()
		got := d.run(t, env, "verify", "--json")
		for _, key := range []string{"lost", "duplicate", "early"} {
			if n := decode[map[string]*int](t, got)[key]; n != nil || got.code != 0 {
				t.Errorf("%s: %s is %d, want null; exit code %d", what, key, *n, got.code)
			}
		}
		plain := d.run(t, env, "verify")
		if n := strings.Count(plain.out, "not checked"); n != 3 || strings.Count(plain.out, why) != 3 || plain.code != 0 {
			t.Errorf("%s: exit code %d, want three times %q in\n%s", what, plain.code, why, plain.out)
		}
	}
	wantUnchecked("without a journal", "no pet_journal in this schema, or no right to see it", nil)

	pipelinetest.Must(t, pet.CreateTables(t.Context(), d.db))
	_, name, _ := strings.Cut(d.dsn, ")/")
	user := "u_" + name[2:12]
	exec := func(statement string) {
		t.Helper()
		_, err := d.db.ExecContext(t.Context(), statement)
		pipelinetest.Must(t, err)
	}
	exec("CREATE USER " + user + "@'%' IDENTIFIED BY 'x'")
	t.Cleanup(func() { _, _ = d.db.Exec("DROP USER " + user + "@'%'") }) // an error doesn't matter: the server ends with the test run
	for _, table := range []string{"tasks", "ended", "recurrences", "limits", "layout", "requests", "history", "epochs", "migrations"} {
		exec("GRANT SELECT ON " + name + ".duetime_" + table + " TO " + user + "@'%'")
	}
	env := []string{"DUETIME_MYSQL__DSN=" + strings.Replace(d.dsn, "root@", user+":x@", 1)}
	wantUnchecked("without a right", "no right to see it", env)
	exec("GRANT INSERT ON " + name + ".pet_journal TO " + user + "@'%'")
	wantUnchecked("without the right to read", "no right to read pet_journal", env)
	exec("GRANT SELECT ON " + name + ".pet_journal TO " + user + "@'%'")
	got := decode[map[string]*int](t, d.run(t, env, "verify", "--json"))
	if n := got["lost"]; n == nil || *n != 0 {
		t.Errorf("with the right: %v", n)
	}
}

// Rows of any kind show impossible values.
func TestVerifyAuditsTheRowsThemselves(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	for _, c := range []struct {
		key     string
		columns string
		want    map[string]int
	}{
		{"premature", "state = 1, version = 2, finished_at = due_at - 1", map[string]int{"done": 1, "premature": 1}},
		{"invalid", "state = 3, version = 2, attempt = 26, finished_at = due_at", map[string]int{"dead": 1, "invalid": 1}},
		{"stuck", "due_at = due_at - 90000000, run_at = due_at", map[string]int{"pending": 1, "stuck": 1, "overdue": 1}},
	} {
		made := d.schedule(t, "ann", 24*time.Hour)
		d.wantVerify(t, "before", 0, map[string]int{"pending": 1})
		_, err := d.db.Exec("UPDATE duetime_tasks SET "+c.columns+" WHERE id = ?", made.ID[:])
		pipelinetest.Must(t, err)
		due, owner := d.keys(made)
		pipelinetest.Must(t, d.redis.Del(t.Context(), due, owner).Err())
		if c.key == "stuck" {
			c.want["missing"] = 1
		}
		d.wantVerify(t, c.key, 1, c.want)
		plain := d.run(t, nil, "verify")
		if said := strings.Contains(plain.out, "the first "+made.ID.String()); said == (c.key == "stuck") {
			t.Errorf("%s:\n%s", c.key, plain.out)
		}
		_, err = d.db.Exec("DELETE FROM duetime_tasks")
		pipelinetest.Must(t, err)
	}
}

// Most counts need MySQL alone.
func TestVerifyWithoutRedis(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	d.schedule(t, "ann", time.Hour)
	got := d.run(t, away(t, "REDIS__ADDRS"), "verify", "--json")
	counted := decode[map[string]*int](t, got)
	if n := counted["pending"]; got.code != 2 || n == nil || *n != 1 || counted["missing"] != nil || counted["extra"] != nil {
		t.Errorf("exit code %d, said %s, want what MySQL tells and null for the rest", got.code, got.out)
	}
}
