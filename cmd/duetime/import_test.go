package main_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// answered is the answer of import --json.
type answered struct {
	DryRun     bool                              `json:"dry_run"`
	Imported   int                               `json:"imported"`
	Present    int                               `json:"present"`
	Left       int                               `json:"left"`
	Unreadable int                               `json:"unreadable"`
	Members    []struct{ Member, Reason string } `json:"unreadable_members"`
	First      []struct {
		ID, Kind, Queue, Owner, Payload string
		DueAtMs                         int64 `json:"due_at_ms"`
	} `json:"first"`
}

func (a answered) counts() string {
	return fmt.Sprintf("imported %d, present %d, left %d, unreadable %d", a.Imported, a.Present, a.Left, a.Unreadable)
}

// importSize is how many members a test imports; DUETIME_TEST_IMPORT sets another number.
func importSize(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv("DUETIME_TEST_IMPORT"), "3000"))
	pipelinetest.Must(t, err)
	return n
}

// rows counts the rows.
func (d deployment) rows(t *testing.T) (n int) {
	t.Helper()
	pipelinetest.Must(t, d.db.Get(&n, `SELECT COUNT(*) FROM duetime_tasks`))
	return n
}

// dumps returns the values of all keys that begin so, as Redis serializes them.
func (d deployment) dumps(t *testing.T, prefix string) map[string]string {
	t.Helper()
	values := map[string]string{}
	keys := d.redis.Scan(t.Context(), 0, prefix+"*", 10_000).Iterator()
	for keys.Next(t.Context()) {
		value, err := d.redis.Dump(t.Context(), keys.Val()).Result()
		pipelinetest.Must(t, err)
		values[keys.Val()] = value
	}
	pipelinetest.Must(t, keys.Err())
	return values
}

// killMidway runs an import of n members from a slow server, and kills it once some of its rows stand, but not all.
func (d deployment) killMidway(t *testing.T, n int, args ...string) {
	t.Helper()
	slow := pipelinetest.Proxy(t, pipelinetest.Redis(t).Addr())
	latency := 250 * time.Millisecond // of each answer: a page takes one at least
	if n > 10_000 {
		latency = 5 * time.Millisecond
	}
	slow.Latency(latency)
	p := pipelinetest.Run(t, pipelinetest.Build(t, "./cmd/duetime"), d.env,
		append(slices.Clone(args), "--from", "redis://"+slow.Addr())...)
	pipelinetest.Await(t, "the first rows", func() bool { return d.rows(t) > 0 })
	if n > 10_000 {
		pipelinetest.Await(t, "half of the rows", func() bool { return d.rows(t) > n/2 })
	}
	pipelinetest.Must(t, p.Kill())
	if got := d.rows(t); got >= n {
		t.Fatalf("all %d rows stood when the import was killed", got)
	} else {
		t.Logf("%d of %d rows stood when the import was killed", got, n)
	}
}

// wantEach wants a row for each of n payloads, due at these seconds, and a line of history for each.
func (d deployment) wantEach(t *testing.T, n int, kind, queue string, first, last time.Time) {
	t.Helper()
	var got struct {
		Rows, Payloads, Lines int
		First, Last           int64
	}
	pipelinetest.Must(t, d.db.Get(&got, "SELECT COUNT(*) AS `rows`, COUNT(DISTINCT payload) AS payloads, MIN(due_at) AS `first`, MAX(due_at) AS `last`, "+
		"(SELECT COUNT(DISTINCT task) FROM duetime_history WHERE event = 'imported') AS `lines` FROM duetime_tasks WHERE kind = ? AND queue = ? AND due_at = run_at",
		kind, queue))
	want := got
	want.Rows, want.Payloads, want.Lines, want.First, want.Last = n, n, n, first.UnixMilli(), last.UnixMilli()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("the rows (-want +got):\n%s", diff)
	}
	if all := d.rows(t); all != n {
		t.Errorf("%d rows, want %d", all, n)
	}
}

func TestImportOfAZSetThatIsKilledMidway(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	n := importSize(t)
	key := "delayed-" + d.namespace
	due := time.Now().Add(24 * time.Hour).Truncate(time.Second)
	var members []redis.Z
	for i := range n {
		members = append(members, redis.Z{Score: float64(due.Unix() + int64(i%7)), Member: fmt.Sprintf(`{"order":%d,"customer":"c%d"}`, i, i%100)})
	}
	at := func(text string, due time.Time) redis.Z { return redis.Z{Score: float64(due.Unix()), Member: text} }
	members = append(members,
		at("no json "+strings.Repeat("x", 300), due), at(`{"order":7}`, due), at("{\"customer\":\"\xff\"}", due),
		at(`{"customer":"far"}`, due.AddDate(12, 0, 0)), at(`{"customer":"c1","much":"`+strings.Repeat("x", 5000)+`"}`, due),
		at(`{"customer":"a {brace}"}`, due), at(`{"customer":"old"}`, due.AddDate(0, 0, -30)))
	for part := range slices.Chunk(members, 1000) {
		pipelinetest.Must(t, d.redis.ZAdd(t.Context(), key, part...).Err())
	}
	before := d.dumps(t, key)
	args := []string{"import", "zset", "--key", key, "--kind", "order.expire", "--owner-from", "customer", "--yes", "--json"}
	d.killMidway(t, n, args...)

	stood := d.rows(t)
	a := d.run(t, nil, args...)
	got := decode[answered](t, a)
	if want := fmt.Sprintf("imported %d, present %d, left 0, unreadable 7", n-stood, stood); got.counts() != want || a.code != 1 {
		t.Errorf("exit code %d, %s, want %s", a.code, got.counts(), want)
	}
	reasons := map[string]bool{}
	for _, m := range got.Members {
		reasons[cutTo(m.Member, 24)+": "+cutTo(m.Reason, 40)] = len(m.Member) <= 200
	}
	wantReasons := map[string]bool{
		"no json xxxxxxxxxxxxxxxx: is no JSON":                                                              true,
		`{"order":7}: its payload has no field "customer"`:                                                  true,
		`{"customer":"?"}: is no UTF-8`:                                                                     true,
		`{"customer":"far"}: due must lie within 10 years, and before`:                                      true,
		`{"customer":"c1","much":: payload must be at most 4096 bytes of JS`:                                true,
		`{"customer":"a {brace}"}: owner must not contain { or }`:                                           true,
		`{"customer":"old"}: was due ` + due.AddDate(0, 0, -30).UTC().Format(time.RFC3339) + ", longer ago": true,
	}
	if diff := gocmp.Diff(wantReasons, reasons); diff != "" {
		t.Errorf("unreadable (-want +got):\n%s", diff)
	}
	d.wantEach(t, n, "order.expire", "default", due, due.Add(6*time.Second))

	var id string
	pipelinetest.Must(t, d.db.Get(&id, `SELECT LOWER(CONCAT_WS('-', SUBSTR(HEX(id), 1, 8), SUBSTR(HEX(id), 9, 4), SUBSTR(HEX(id), 13, 4), SUBSTR(HEX(id), 17, 4), SUBSTR(HEX(id), 21))) FROM duetime_tasks LIMIT 1`))
	d.wantCode(t, 0, "task", "cancel", id) // it has ended, and is not made once more
	if life := d.wantCode(t, 0, "task", "get", id).out; !strings.Contains(life, "from zset "+key) {
		t.Errorf("its life:\n%s", life)
	}
	if got := decode[answered](t, d.run(t, nil, args...)); got.counts() != fmt.Sprintf("imported 0, present %d, left 0, unreadable 7", n) {
		t.Errorf("once more: %s", got.counts())
	}
	if diff := gocmp.Diff(before, d.dumps(t, key)); diff != "" {
		t.Errorf("the source was changed: %s", diff)
	}
}

func cutTo(s string, n int) string { return s[:min(n, len(s))] }

func TestImportOfAsynqThatIsKilledMidway(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	n := importSize(t)
	queue := "mails-" + d.namespace
	due := time.Now().Add(24 * time.Hour).Truncate(time.Second)
	var tasks []pipelinetest.AsynqTask
	for i := range n {
		kind := "mail:send"
		if i%2 == 1 {
			kind = "mail:digest"
		}
		tasks = append(tasks, pipelinetest.AsynqTask{
			Type: kind, ID: fmt.Sprintf("%08x-0000-4000-8000-000000000000", i), Payload: fmt.Appendf(nil, `{"to":%d}`, i), Due: due.Add(time.Duration(i%7) * time.Second),
		})
	}
	tasks = append(tasks,
		pipelinetest.AsynqTask{Type: "mail:send", ID: "text", Payload: []byte("hello"), Due: due},
		pipelinetest.AsynqTask{Type: "push", ID: "push", Payload: []byte("{}"), Due: due})
	pipelinetest.ScheduleAsynq(t, d.redis, queue, tasks...)
	prefix := "asynq:{" + queue + "}:"
	before := d.dumps(t, prefix)
	args := []string{"import", "asynq", "--queue", queue, "--kind-map", "mail:send=mail,mail:digest=mail", "--yes", "--json"}
	d.killMidway(t, n, args...)

	stood := d.rows(t)
	a := d.run(t, nil, args...)
	got := decode[answered](t, a)
	if want := fmt.Sprintf("imported %d, present %d, left 0, unreadable 2", n-stood, stood); got.counts() != want || a.code != 1 {
		t.Errorf("exit code %d, %s, want %s; said %s", a.code, got.counts(), want, a.err)
	}
	for _, m := range got.Members {
		if want := map[string]string{"text": `its payload of type "mail:send" is no JSON`, "push": `type "push" has no kind`}[m.Member]; m.Reason != want {
			t.Errorf("%s: %s, want %s", m.Member, m.Reason, want)
		}
	}
	d.wantEach(t, n, "mail", "default", due, due.Add(6*time.Second))
	var owners int
	pipelinetest.Must(t, d.db.Get(&owners, `SELECT COUNT(DISTINCT owner) FROM duetime_tasks WHERE owner LIKE '%-0000-4000-8000-000000000000' AND max_attempts = 25`))
	if owners != n {
		t.Errorf("%d tasks are owned by the id of asynq's task, want %d", owners, n)
	}
	if got := decode[answered](t, d.run(t, nil, args...)); got.counts() != fmt.Sprintf("imported 0, present %d, left 0, unreadable 2", n) {
		t.Errorf("once more: %s", got.counts())
	}
	if diff := gocmp.Diff(before, d.dumps(t, prefix)); diff != "" {
		t.Errorf("the source was changed: %s", diff)
	}
}

func TestImportDryRunAndBounds(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	config := d.withQueues(t, "default, mails")
	key := "delayed-" + d.namespace
	due := time.Now().Add(24 * time.Hour).Truncate(time.Millisecond)
	for i := range 12 {
		z := redis.Z{Score: float64(due.Add(time.Duration(i) * time.Hour).UnixMilli()), Member: i}
		pipelinetest.Must(t, d.redis.ZAdd(t.Context(), key, z).Err())
	}
	run := func(code int, more ...string) answer {
		t.Helper()
		return d.wantCode(t, code, slices.Concat([]string{"import", "zset", "--key", key, "--kind", "remind", "--yes"}, config, more)...)
	}
	if got := run(1, "--dry-run"); !strings.Contains(got.err, "12 members could not be imported") ||
		!strings.Contains(got.out, "unreadable: 0: is JSON, but neither an object nor a list: it may be an id\n") {
		t.Errorf("numbers: %s%s", got.out, got.err)
	}
	dry := decode[answered](t, run(0, "--member-is", "id", "--to", "mails", "--dry-run", "--json"))
	if dry.counts() != "imported 12, present 0, left 0, unreadable 0" || !dry.DryRun || len(dry.First) != 10 {
		t.Errorf("dry run: %+v", dry)
	}
	if f := dry.First[3]; f.Kind != "remind" || f.Queue != "mails" || f.Owner != "3" || f.Payload != `{"id":"3"}` || f.DueAtMs != due.Add(3*time.Hour).UnixMilli() {
		t.Errorf("the fourth: %+v", f)
	}
	if table := run(0, "--member-is", "id", "--dry-run").out; !strings.Contains(table, "would import    12\n") || strings.Count(table, "\n") != 4+1+1+10 {
		t.Errorf("the table:\n%s", table)
	}
	if n := d.rows(t); n != 0 {
		t.Errorf("a dry run made %d rows", n)
	}
	later := due.Add(6 * time.Hour).Format(time.RFC3339Nano)
	for _, c := range []struct{ flag, says string }{{"--due-after", "imported        6\nthere before    0\n"}, {"--due-before", "imported        6\nthere before    0\n"}, {"--due-after", "imported        0\nthere before    6\n"}} {
		if got := run(0, "--member-is", "id", "--owner-from", "id", c.flag, later); !strings.HasPrefix(got.out, c.says) {
			t.Errorf("%s: %s", c.flag, got.out)
		}
	}
	if n := d.rows(t); n != 12 {
		t.Errorf("%d rows, want 12", n)
	}
	// Another kind is a mistake: each member has its task. Another name of the source makes other tasks.
	if got := d.run(t, nil, "import", "zset", "--key", key, "--kind", "other", "--member-is", "id", "--yes"); got.code != 1 || strings.Count(got.out, "was imported before, as task") != 12 {
		t.Errorf("another kind: exit code %d, %s", got.code, got.out)
	}
	run(0, "--member-is", "id", "--source", "another")
	if n := d.rows(t); n != 24 {
		t.Errorf("%d rows, want 24", n)
	}
}

// A member that was due longer ago than finished rows are kept may have run: it takes a flag.
func TestImportOfWhatIsLongOverdue(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	key := "delayed-" + d.namespace
	for member, ago := range map[string]time.Duration{"late": 6 * 24 * time.Hour, "old": 8 * 24 * time.Hour} {
		z := redis.Z{Score: float64(time.Now().Add(-ago).UnixMilli()), Member: member}
		pipelinetest.Must(t, d.redis.ZAdd(t.Context(), key, z).Err())
	}
	args := []string{"import", "zset", "--key", key, "--kind", "remind", "--member-is", "id", "--yes", "--json"}
	a := d.wantCode(t, 1, args...)
	if got := decode[answered](t, a); got.counts() != "imported 1, present 0, left 0, unreadable 1" || got.Members[0].Member != "old" {
		t.Errorf("by default: %s", a.out)
	}
	if got := decode[answered](t, d.wantCode(t, 0, append(args, "--overdue")...)); got.counts() != "imported 1, present 1, left 0, unreadable 0" {
		t.Errorf("--overdue: %s", got.counts())
	}
	var late int
	pipelinetest.Must(t, d.db.Get(&late, `SELECT COUNT(*) FROM duetime_tasks WHERE due_at = created_at`)) // the past means now
	if late != 2 {
		t.Errorf("%d tasks are due now, want 2", late)
	}
}

func TestImportRefuses(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	key := "delayed-" + d.namespace
	pipelinetest.Must(t, d.redis.ZAdd(t.Context(), key, redis.Z{Score: 5, Member: "{}"}, redis.Z{Score: 1_900_000_000, Member: "[]"}).Err())
	pipelinetest.Must(t, d.redis.Set(t.Context(), "text-"+d.namespace, "x", 0).Err())
	zset := func(more ...string) []string {
		return append([]string{"import", "zset", "--key", key, "--kind", "remind"}, more...)
	}
	asynq := func(more ...string) []string { return append([]string{"import", "asynq", "--yes"}, more...) }
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"import"}, "needs one of its commands"},
		{[]string{"import", "zset", "--key", key}, "--kind"},
		{zset(), "--yes"},
		{zset("--yes"), "give --score-is"},
		{zset("--yes", "--score-is", "h"), "--score-is"},
		{zset("--yes", "--member-is", "xml"), "--member-is"},
		{zset("--yes", "--to", "mials"), `"mials" is none of`},
		{zset("--yes", "--kind", "no kind"), "kind must be"},
		{zset("--yes", "--max-attempts", "0"), "max_attempts"},
		{zset("--yes", "--due-after", "noon"), "--due-after"},
		{zset("--yes", "--from", "127.0.0.1:6379"), "--from"},
		{zset("--yes", "--from", "redis://u:hunter2@127.0.0.1:6379"), "DUETIME_IMPORT_PASSWORD"},
		{[]string{"import", "zset", "--key", "text-" + d.namespace, "--kind", "remind", "--yes"}, "WRONGTYPE"},
		{asynq("--queue", "mails"), "--kind-map"},
		{asynq("--queue", "mails", "--kind-map", "mail"), "TYPE=KIND"},
		{asynq("--queue", "mails", "--kind-map", "mail=a b"), "kind must be"},
		{asynq("--queue", "mails", "--kind-map", "mail=a,mail=b"), "twice"},
		{asynq("--queue", "mails", "--kind-map", "mail=a@mials"), `"mials" is none of`},
	} {
		if got := d.wantCode(t, 1, c.args...); !strings.Contains(got.err, c.want) || strings.Contains(got.err, "hunter2") {
			t.Errorf("%v: said %q, want %q", c.args, got.err, c.want)
		}
	}
	if n := d.rows(t); n != 0 {
		t.Errorf("%d rows were made", n)
	}
	if got := d.wantCode(t, 0, "import", "zset", "--key", "absent-"+d.namespace, "--kind", "remind", "--yes").out; !strings.HasPrefix(got, "imported        0\n") {
		t.Errorf("of no set: %s", got)
	}
	nobody := pipelinetest.Proxy(t, "127.0.0.1:1")
	nobody.Refuse()
	d.wantCode(t, 2, zset("--yes", "--from", "redis://"+nobody.Addr())...)
	locked := pipelinetest.OwnRedis(t, "--requirepass", "hunter2")
	d.wantCode(t, 1, zset("--yes", "--from", "redis://"+locked.Addr())...)
	if got := d.run(t, []string{"DUETIME_IMPORT_PASSWORD=hunter2"}, zset("--yes", "--from", "redis://"+locked.Addr())...); got.code != 0 {
		t.Errorf("with the password: exit code %d, %s", got.code, got.err)
	}
}
