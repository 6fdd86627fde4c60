package main_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// counts is what verify --json answers: these keys and no others.
func counts(some map[string]int) map[string]int {
	all := map[string]int{
		"pending": 0, "done": 0, "cancelled": 0, "dead": 0, "overdue": 0,
		"missing": 0, "extra": 0, "lost": 0, "duplicate": 0, "early": 0,
	}
	for key, n := range some {
		all[key] = n
	}
	return all
}

// wantVerify runs verify and wants its exit code and answer.
func (d deployment) wantVerify(t *testing.T, what string, code int, want map[string]int) {
	t.Helper()
	got := d.run(t, nil, "verify", "--json")
	if diff := cmp.Diff(counts(want), decode[map[string]int](t, got)); diff != "" || got.code != code {
		t.Errorf("%s: exit code %d, want %d; (-want +got):\n%s%s", what, got.code, code, diff, got.err)
	}
}

// keys names the two sets in which the task stands.
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

	// A ghost: an entry of a task that has ended.
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
	write("fed", pending, 100, 50) // has a pending row
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
