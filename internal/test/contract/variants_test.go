package contract_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// variant is the implementation in Python, broken in one place.
type variant struct {
	name    string
	changes [][2]string // each replaces a text that is there once
	fails   []string    // the checks that find a fault, in order; all others find none
}

var variants = []variant{
	{
		"no version check",
		[][2]string{
			{`f"version = COALESCE(%s, version) AND `, `f"COALESCE(%s, version) IS NOT NULL AND `},
			{`"version = %s"`, `"%s IS NOT NULL"`},
		},
		[]string{"change a stale version", "effect moves its task"},
	},
	{
		"no row lock",
		[][2]string{{" FOR UPDATE SKIP LOCKED", ""}},
		[]string{
			"settle twice at once", "cancel while settling", "move while settling", "settle while cancelling", "settle while moving",
		},
	},
	{
		"its own clock",
		[][2]string{{"        db.begin()\n", "        db.begin()\n        db.cursor().execute(f'SET timestamp = {time.time()}')\n"}},
		[]string{"schedule", "move", "cancel", "settle", "settle early", "failure", "last failure", "look"},
	},
	{
		"effect outside of the transaction",
		[][2]string{
			{`effects[task["kind"]](cursor,`, `effects[task["kind"]](elsewhere(cursor.connection),`},
			{"def charge(", "def elsewhere(db):\n    other = connect(host=db.host, port=db.port, user='root', database=db.db)\n" +
				"    other.autocommit(True)\n    return other.cursor()\n\n\ndef charge("},
		},
		[]string{"crash while settling", "effect moves its task", "failure", "last failure", "transaction lost in the effect"},
	},
	{
		"time not checked",
		[][2]string{{"due_at <= {NOW} AND run_at <= {NOW} AND ", ""}},
		[]string{"settle early", "settle while moving"},
	},
	{
		"time of the next attempt not checked",
		[][2]string{{" AND run_at <= {NOW} AND ", " AND "}},
		[]string{"settle early"},
	},
	{
		"state not checked",
		[][2]string{{"SELECT *, state = 0 AND ", "SELECT *, "}, {"WHERE id = %s AND state = 0 AND ", "WHERE id = %s AND "}},
		[]string{
			"change what has ended", "settle", "settle what has ended", "settle twice at once", "cancel while settling",
			"move while settling", "settle while cancelling", "last failure",
		},
	},
	{
		"commits what is the caller's to commit",
		[][2]string{
			{"    return id\n\n\ndef move(", "    cursor.connection.commit()\n    return id\n\n\ndef move("},
			{"changes, values):\n        return\n", "changes, values):\n        cursor.connection.commit()\n        return\n"},
		},
		[]string{"schedule with the caller's transaction", "crash while cancelling"},
	},
	{
		"id not looked for",
		[][2]string{{"return id if cursor.fetchone() else None", "return None"}},
		[]string{"schedule once"},
	},
	{
		"shard computed wrong",
		[][2]string{{"MOD shards", "MOD 7"}},
		[]string{"schedule"},
	},
	{
		"version not raised",
		[][2]string{{"SET version = version + 1, ", "SET "}},
		[]string{
			"move", "cancel", "change a stale version", "settle", "settle twice at once", "cancel while settling",
			"move while settling", "settle while cancelling", "settle while moving", "crash while settling", "crash while cancelling",
			"effect moves its task", "failure", "last failure", "transaction lost in the effect",
		},
	},
	{
		"attempt not counted",
		[][2]string{{"values = [attempt, ", `values = [task["attempt"], `}},
		[]string{"failure", "last failure"},
	},
	{
		"lost transaction not noticed",
		[][2]string{{`cursor.execute("RELEASE SAVEPOINT effect")`, "pass"}},
		[]string{"transaction lost in the effect"},
	},
	{
		"key not freed",
		[][2]string{{`FREED = "IF(LEFT(dedup_key, 1) = 'k', NULL, dedup_key)"`, `FREED = "dedup_key"`}},
		[]string{"cancel", "settle"},
	},
	{
		"tasks of recurrences ended",
		[][2]string{{`IS_TICK = "COALESCE(LEFT(dedup_key, 1) = 'r', FALSE)"`, `IS_TICK = "FALSE"`}},
		[]string{"task of a recurrence"},
	},
	{
		"look without an end",
		[][2]string{{"self.after = (older", "self.after = self.after if full else (older"}},
		[]string{"look behind others' tasks"},
	},
}

// make writes the variant, and returns its folder.
func (v variant) make(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder(t), "duetime.py"))
	pipelinetest.Must(t, err)
	broken := string(text)
	for _, change := range v.changes {
		if n := strings.Count(broken, change[0]); n != 1 {
			t.Fatalf("%q is in duetime.py %d times, want once", change[0], n)
		}
		broken = strings.Replace(broken, change[0], change[1], 1)
	}
	dir := t.TempDir()
	pipelinetest.Must(t, os.WriteFile(filepath.Join(dir, "duetime.py"), []byte(broken), 0o600))
	return dir
}
