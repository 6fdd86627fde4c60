package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// lived is a task with its history as the tool writes it.
type lived struct {
	shown

	Queue     string `json:"queue"`
	LastError string `json:"last_error"`
	History   []struct {
		AtMs                 int64 `json:"at_ms"`
		Event, Actor, Detail string
	} `json:"history"`
}

// life returns the lines of a task's history as the tool shows them: "actor event detail", the operator's name being
// "operator".
func (d deployment) life(t *testing.T, id task.ID) []string {
	t.Helper()
	var lines []string
	last := int64(0)
	for _, e := range decode[lived](t, d.wantCode(t, 0, "task", "get", id.String(), "--json")).History {
		if e.AtMs < last {
			t.Errorf("%s at %d comes after %d", e.Event, e.AtMs, last)
		}
		last = e.AtMs
		if strings.Contains(e.Actor, "@") {
			e.Actor = "operator"
		}
		lines = append(lines, strings.TrimSpace(e.Actor+" "+e.Event+" "+e.Detail))
	}
	return lines
}

// die makes a task dead.
func (d deployment) die(t *testing.T, made task.Task) task.Task {
	t.Helper()
	_, err := d.db.Exec(`UPDATE duetime_tasks SET state = 3, attempt = 25, version = version + 1, last_error = 'no such address', finished_at = updated_at WHERE id = ?`, made.ID[:])
	pipelinetest.Must(t, err)
	return made
}

func TestTaskGetShowsItsLife(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	made := d.schedule(t, "ann", 5*time.Hour)
	d.wantCode(t, 0, "task", "reschedule", made.ID.String(), "--by=-2h")
	d.wantCode(t, 0, "task", "cancel", made.ID.String())
	due := made.DueAt.Add(-2 * time.Hour).Format("2006-01-02T15:04:05.000Z07:00")
	want := []string{"service scheduled", "operator moved by -2h0m0s to " + due, "operator cancelled"}
	if diff := cmp.Diff(want, d.life(t, made.ID)); diff != "" {
		t.Errorf("cancelled by an operator (-want +got):\n%s", diff)
	}

	done := d.schedule(t, "ann", 0)
	_, err := d.db.Exec(`UPDATE duetime_tasks SET state = 1, finished_at = due_at + 12 WHERE id = ?`, done.ID[:])
	pipelinetest.Must(t, err)
	want = []string{"service scheduled", "worker done 12ms after it was due"}
	if diff := cmp.Diff(want, d.life(t, done.ID)); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
	ran := protocol.Ran{Worker: 1, Started: time.Millisecond, Ended: 11 * time.Millisecond, Handler: 8 * time.Millisecond}
	_, err = d.db.Exec(`UPDATE duetime_tasks SET ran = ?, created_at = due_at WHERE id = ?`, ran.Pack(), done.ID[:])
	pipelinetest.Must(t, err)
	said := d.wantCode(t, 0, "task", "get", done.ID.String())
	for _, line := range []string{
		"took effect by a worker that is not known any more, after its moment:", "1ms   until the first handler of its transaction began",
		"11ms  until it was marked done, just before COMMIT; its own handler took 8ms",
	} {
		if !strings.Contains(said.out, line) {
			t.Errorf("%q lacks %q", said.out, line)
		}
	}
	want = []string{"service scheduled"}
	if diff := cmp.Diff(want, d.life(t, d.schedule(t, "ann", time.Hour).ID)); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
}

// A history that was cut is reported.
func TestTaskGetSaysThatALifeIsLonger(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	made := d.schedule(t, "ann", time.Hour)
	write := func(from, to int) {
		t.Helper()
		_, err := d.db.Exec("INSERT INTO duetime_history (at, task, event) SELECT seq, ?, 'snoozed' FROM "+pipelinetest.Numbers(from, to), made.ID[:])
		pipelinetest.Must(t, err)
	}
	write(1, 10_000)
	if got := d.wantCode(t, 0, "task", "get", made.ID.String()); got.err != "" || strings.Count(got.out, "snoozed") != 10_000 {
		t.Errorf("of 10,000 lines: said %q", got.err)
	}
	write(10_001, 10_001)
	if got := d.wantCode(t, 0, "task", "get", made.ID.String()); !strings.Contains(got.err, "the newest 10,000 lines") || strings.Count(got.out, "snoozed") != 10_000 {
		t.Errorf("of 10,001 lines: said %q", got.err)
	}
}

func TestTaskRetry(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	made := d.die(t, d.schedule(t, "ann", 0))
	began := time.Now().Add(-time.Second)
	got := decode[shown](t, d.wantCode(t, 0, "task", "retry", made.ID.String(), "--json"))
	if got.State != "pending" || got.Attempt != 0 || got.Version != 3 || time.UnixMilli(got.DueAtMs).Before(began) || got.Finished != nil {
		t.Errorf("retried: %+v", got)
	}
	due := made.DueAt.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	want := []string{"service scheduled", "operator retried was due " + due + ", was dead after 25 attempts: no such address"}
	if diff := cmp.Diff(want, d.life(t, made.ID)); diff != "" {
		t.Errorf("its life (-want +got):\n%s", diff)
	}
	if said := d.wantCode(t, 1, "task", "retry", made.ID.String()); !strings.Contains(said.err, "pending, not dead") {
		t.Errorf("a pending task: %s", said.err)
	}
	d.wantCode(t, 0, "task", "cancel", made.ID.String())
	d.wantCode(t, 3, "task", "retry", made.ID.String())
	d.wantCode(t, 4, "task", "retry", nobody)
	d.wantVerify(t, "the index follows", 0, map[string]int{"cancelled": 1})
}

func TestTaskListFilters(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	sooner, later := d.schedule(t, "ann", time.Hour), d.schedule(t, "ann", 2*time.Hour)
	for _, c := range []struct {
		args []string
		want []task.Task
	}{
		{[]string{"--due-after", later.DueAt.Format(time.RFC3339Nano)}, []task.Task{later}},
		{[]string{"--due-after", sooner.DueAt.Format(time.RFC3339Nano), "--due-before", later.DueAt.Format(time.RFC3339Nano)}, []task.Task{sooner}},
		{[]string{"--queue", "default"}, []task.Task{sooner, later}},
		{[]string{"--queue", "mails"}, nil},
	} {
		var want, got []string
		for _, v := range c.want {
			want = append(want, v.ID.String())
		}
		for _, v := range decode[[]shown](t, d.wantCode(t, 0, append([]string{"task", "list", "--json"}, c.args...)...)) {
			got = append(got, v.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.args, diff)
		}
	}
	d.wantCode(t, 1, "task", "list", "--due-after", "noon")
}

func TestDeadTasksInBulk(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	d.startDaemon(t)
	var ann []task.Task
	for i := range 3 {
		ann = append(ann, d.die(t, d.schedule(t, "ann", -time.Duration(i)*time.Second)))
	}
	for range 250 {
		d.die(t, d.schedule(t, "bob", 0))
	}
	waits := d.schedule(t, "ann", time.Hour)
	if got := decode[[]lived](t, d.wantCode(t, 0, "dead", "list", "--owner", "ann", "--json")); len(got) != 3 || got[0].LastError != "no such address" {
		t.Errorf("the list: %+v", got)
	}
	if table := d.wantCode(t, 0, "dead", "list", "--limit", "2"); strings.Count(table.out, "no such address") != 2 {
		t.Errorf("the table:\n%s", table.out)
	}
	say := func(want string, args ...string) {
		t.Helper()
		if got := d.wantCode(t, 0, args...); got.out != want {
			t.Errorf("%v said %q, want %q", args, got.out, want)
		}
	}
	say("retried 0 tasks\n", "dead", "retry", "--kind", "other", "--yes")
	say("retried 1 task\n", "dead", "retry", "--owner", "ann", "--limit", "1", "--yes")
	say("discarded 1 task\n", "dead", "discard", ann[1].ID.String(), "--yes")
	for _, c := range []struct {
		code int
		why  string
		args []string
	}{
		{1, "1 was left alone, the first: retry " + waits.ID.String() + ": task is pending, not dead", []string{"dead", "retry", waits.ID.String()}},
		{3, "1 was left alone, the first: discard " + ann[1].ID.String() + ": task already finished: already cancelled", []string{"dead", "discard", ann[1].ID.String(), ann[1].ID.String()}},
		{4, "task not found", []string{"dead", "retry", nobody}},
		{1, "2 were left alone, the first: discard ", []string{"dead", "discard", ann[1].ID.String(), waits.ID.String()}},
		{4, "2 were left alone, the first: retry ", []string{"dead", "retry", nobody, task.NewID().String()}},
		{1, "ids must be at most 1000, and are 1001", append([]string{"dead", "retry"}, manyIDs(1001)...)},
	} {
		if got := d.wantCode(t, c.code, append(c.args, "--yes")...); !strings.Contains(got.err, c.why) {
			t.Errorf("%v said %q, want %q", c.args, got.err, c.why)
		}
	}
	some := d.die(t, d.schedule(t, "bob", 0)).ID.String()
	if got := d.wantCode(t, 1, "dead", "discard", some, waits.ID.String(), "--yes"); got.out != "discarded 1 task\n" ||
		!strings.Contains(got.err, "1 was left alone, the first: discard "+waits.ID.String()+": task is pending, not dead") {
		t.Errorf("one of two said %q and %q", got.out, got.err)
	}
	say("retried 250 tasks\n", "dead", "retry", "--owner", "bob", "--yes")
	say("discarded 1 task\n", "dead", "discard", "--all", "--yes")
	pipelinetest.Await(t, "the retried to be overdue", func() bool {
		return decode[map[string]int](t, d.run(t, nil, "verify", "--json"))["overdue"] == 251
	})
	d.wantVerify(t, "the index follows", 1, map[string]int{"pending": 252, "cancelled": 3, "overdue": 251})
}

func manyIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = task.NewID().String()
	}
	return ids
}

func TestRetryOverATakenKey(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	keyed := func() (made task.Task) {
		pipelinetest.Must(t, d.client.InTx(t.Context(), func(tx *schedule.Tx) (err error) {
			made, err = tx.Schedule(t.Context(), remind.New("ann", reminder{}, task.In(time.Hour), task.Key("k")))
			return err
		}))
		return made
	}
	first := keyed()
	_, err := d.db.Exec(`UPDATE duetime_tasks SET state = 3, finished_at = created_at, dedup_key = CONCAT('d', REPLACE(REPLACE(TRIM(TRAILING '=' FROM TO_BASE64(id)), '+', '-'), '/', '_'), 'k') WHERE id = ?`, first.ID[:])
	pipelinetest.Must(t, err)
	keyed()
	d.startDaemon(t)
	for _, args := range [][]string{{"dead", "retry", first.ID.String(), "--yes"}, {"task", "retry", first.ID.String()}, {"dead", "retry", "--all", "--yes"}} {
		if got := d.wantCode(t, 1, args...); !strings.Contains(got.err, "another task has its key") {
			t.Errorf("%v said %q", args, got.err)
		}
	}
}

func TestDestructiveVerbsNeedAYes(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	dead := d.die(t, d.schedule(t, "ann", 0))
	for _, args := range [][]string{
		{"dead", "retry", "--all"},
		{"dead", "discard", dead.ID.String()},
		{"shard", "rebuild", "--all"},
		{"shard", "grow", "8"},
		{"shard", "shrink", "2"},
		{"leader", "resign", "event"},
		{"leader", "resign"},
	} {
		if got := d.wantCode(t, 1, args...); !strings.Contains(got.err, "--yes") || got.out != "" {
			t.Errorf("%v said %q and %q", args, got.err, got.out)
		}
	}
	var n int
	pipelinetest.Must(t, d.db.Get(&n, `SELECT (SELECT COUNT(*) FROM duetime_requests) + (SELECT COUNT(*) FROM duetime_history) + (SELECT COUNT(*) FROM duetime_tasks WHERE state <> 3)`))
	if n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

// withQueues sets the queues of the tool's configuration.
func (d deployment) withQueues(t *testing.T, list string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "duetime.yaml")
	pipelinetest.Must(t, os.WriteFile(file, []byte("queues: ["+list+"]\n"), 0o600))
	return []string{"--config", file}
}

func TestRequeue(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	queues := d.withQueues(t, "default, mails")
	var all []task.Task
	for i := range 450 {
		all = append(all, d.schedule(t, fmt.Sprint("owner ", i%3), time.Duration(i+1)*time.Hour))
	}
	ended := all[7]
	_, err := d.client.Cancel(t.Context(), ended.ID)
	pipelinetest.Must(t, err)
	d.startDaemon(t)
	requeue := func(args ...string) []string { return slices.Concat([]string{"task", "requeue"}, queues, args) }
	if got := d.wantCode(t, 1, requeue("--kind", "test.remind", "--to", "mails")...); !strings.Contains(got.err, "--yes") {
		t.Errorf("unasked: %s", got.err)
	}
	if got := d.wantCode(t, 1, requeue("--kind", "test.remind", "--to", "mials", "--yes")...); !strings.Contains(got.err, "mials") {
		t.Errorf("an unknown queue: %s", got.err)
	}
	for _, c := range []struct{ kind, says string }{
		{"test.other", "moved 0 tasks to mails\n"}, {"test.remind", "moved 449 tasks to mails\n"}, {"test.remind", "moved 0 tasks to mails\n"},
	} {
		if got := d.wantCode(t, 0, requeue("--kind", c.kind, "--to", "mails", "--yes")...); got.out != c.says || got.err != "" {
			t.Errorf("%s: said %q and %q, want %q", c.kind, got.out, got.err, c.says)
		}
	}
	d.wantVerify(t, "each stands once, in its new queue", 0, map[string]int{"pending": 449, "cancelled": 1})
	got := decode[lived](t, d.wantCode(t, 0, "task", "get", all[0].ID.String(), "--json"))
	if got.Queue != "mails" || got.Version != 2 || got.DueAtMs != all[0].DueAt.UnixMilli() {
		t.Errorf("moved: %+v", got)
	}
	life := d.life(t, all[0].ID)
	if len(life) != 2 || !strings.HasPrefix(life[1], "operator requeued from default to mails, operation ") {
		t.Errorf("its life is %q", life)
	}
	d.wantCode(t, 0, "task", "reschedule", all[0].ID.String(), "--by", "1h") // fails unless the version is the row's
	d.wantVerify(t, "the index follows", 0, map[string]int{"pending": 449, "cancelled": 1})
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	paused := func() []string {
		t.Helper()
		var names []string
		for _, v := range decode[[]struct{ Queue string }](t, d.wantCode(t, 0, "pause", "--list", "--json")) {
			names = append(names, v.Queue)
		}
		return names
	}
	d.wantCode(t, 0, "pause", "default")
	if diff := cmp.Diff([]string{"default"}, paused()); diff != "" {
		t.Errorf("paused (-want +got):\n%s", diff)
	}
	if got := d.wantCode(t, 1, "pause", "mials", "--yes"); !strings.Contains(got.err, "mials") || !strings.Contains(got.err, "default") {
		t.Errorf("an unknown queue: %s", got.err)
	}
	d.wantCode(t, 0, "resume", "default")
	if got := paused(); len(got) != 0 {
		t.Errorf("paused: %v", got)
	}
	var lines []struct{ Event, Detail string }
	pipelinetest.Must(t, d.db.Select(&lines, `SELECT event, detail FROM duetime_history WHERE actor LIKE '%@%' ORDER BY seq`))
	if len(lines) != 2 || lines[0].Event != "paused" || lines[1].Event != "resumed" || lines[1].Detail != "default" {
		t.Errorf("the history: %v", lines)
	}
	d.wantCode(t, 0, "resume", "default") // may be repeated
	if got := d.wantCode(t, 1, "resume", "mials"); !strings.Contains(got.err, "mials") || !strings.Contains(got.err, "default") {
		t.Errorf("an unknown queue: %s", got.err)
	}
	d.wantCode(t, 0, "pause", "default")
	_, err := d.db.ExecContext(t.Context(), "UPDATE duetime_requests SET name = 'pause:mials' WHERE name = 'pause:default'")
	pipelinetest.Must(t, err)
	d.wantCode(t, 0, "resume", "mials") // it was in the configuration when it was paused
	if got := paused(); len(got) != 0 {
		t.Errorf("paused: %v", got)
	}
}

func TestPauseUntilATime(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	type pause struct {
		Queue, Kind, Owner, Actor string
		UntilMs                   *int64 `json:"until_ms"`
	}
	list := func() []pause { t.Helper(); return decode[[]pause](t, d.wantCode(t, 0, "pause", "--list", "--json")) }
	if got := d.wantCode(t, 0, "pause", "default", "--owner", "ann", "--until", "+1h"); !strings.HasPrefix(got.out, "queue=default, owner=ann is paused until ") {
		t.Errorf("said %q", got.out)
	}
	d.wantCode(t, 0, "pause", "--kind", "test.remind", "--until", "+1h")
	d.wantCode(t, 0, "pause", "default", "--until", "+1h")
	all := list()
	if len(all) != 3 || all[0].Kind != "test.remind" || all[1].Queue != "default" || all[1].Owner != "" || all[1].UntilMs == nil ||
		all[2].Queue != "default" || all[2].Owner != "ann" || !strings.Contains(all[2].Actor, "@") {
		t.Errorf("paused: %+v", all)
	}
	if got := d.wantCode(t, 0, "pause", "--list"); !strings.Contains(got.out, "test.remind") || !strings.Contains(got.out, "UNTIL") {
		t.Errorf("listed: %s", got.out)
	}
	for _, wrong := range [][]string{
		{"pause"},
		{"pause", "default", "--list"},
		{"pause", "--list", "--until", "+1h"},
		{"pause", "--owner", "ann"},
		{"pause", "--owner", "ann", "--until", "now"},
		{"pause", "--owner", "ann", "--until", "+40d"},
		{"pause", "--owner", "ann", "--until", "soon"},
		{"pause", "mials", "--until", "+1h"},
	} {
		d.wantCode(t, 1, wrong...)
	}
	for _, c := range []struct{ says string }{{"queue=default, owner=ann goes on\n"}, {"queue=default, owner=ann was not paused\n"}} {
		if got := d.wantCode(t, 0, "resume", "default", "--owner", "ann"); got.out != c.says {
			t.Errorf("said %q, want %q", got.out, c.says)
		}
	}
	d.wantCode(t, 0, "resume", "--kind", "test.remind")
	d.wantCode(t, 0, "resume", "default")
	if left := list(); len(left) != 0 {
		t.Errorf("paused: %+v", left)
	}
}

func TestShardsAndLeadersOfAnIdleDeployment(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	d.schedule(t, "ann", time.Hour)
	type shard struct {
		Shard       int
		Due, Owners int
		Oldest      *int64 `json:"oldest_due_ms"`
		Marker      string
	}
	var all []shard
	pipelinetest.Await(t, "the task to stand in the index", func() bool {
		all = decode[[]shard](t, d.wantCode(t, 0, "shard", "stat", "--json"))
		due := 0
		for _, s := range all {
			due += s.Due
		}
		return due == 1
	})
	for i, s := range all {
		if s.Shard != i || s.Marker != "absent" || s.Owners != s.Due || (s.Due > 0) != (s.Oldest != nil) {
			t.Errorf("shard %d: %+v", i, s)
		}
	}
	if len(all) != 4 {
		t.Errorf("%d shards, want 4", len(all))
	}
	if table := d.wantCode(t, 0, "shard", "stat"); strings.Count(table.out, "\n") != 5 {
		t.Errorf("the table:\n%s", table.out)
	}
	if got := d.wantCode(t, 0, "leader", "show"); !strings.Contains(got.out, "event   0") {
		t.Errorf("nobody led:\n%s", got.out)
	}
	if got := d.wantCode(t, 1, "leader", "resign", "daemon", "--yes"); !strings.Contains(got.err, "nobody has ever led") {
		t.Errorf("nobody led: %s", got.err)
	}
	for _, args := range [][]string{{"leader", "resign", "king", "--yes"}, {"shard", "rebuild"}, {"shard", "grow"}, {"shard", "grow", "5", "--cancel"}, {"shard", "grow", "1025", "--yes"}, {"shard", "grow", "2", "--yes"}, {"shard", "shrink", "4", "--yes"}, {"shard", "shrink", "--pause"}, {"shard", "rebuild", "4", "--yes"}, {"shard", "rebuild", "x", "--yes"}} {
		d.wantCode(t, 1, args...)
	}
}

func TestConfigCheckAndPrint(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "duetime.yaml")
	pipelinetest.Must(t, os.WriteFile(file, []byte("mysql: {dsn: 'ann:hunter2@tcp(db:3306)/game'}\nredis: {password: hunter2}\n"), 0o600))
	var d deployment
	if got := d.wantCode(t, 0, "config", "check", "--config", file); got.out != "configuration is right\n" {
		t.Errorf("check said %q", got.out)
	}
	printed := d.wantCode(t, 0, "config", "print", "--config", file).out
	if strings.Contains(printed, "hunter2") || !strings.Contains(printed, "tcp(db:3306)/game") || !strings.Contains(printed, "\nkafka.partitions: 24\n") {
		t.Errorf("print said\n%s", printed)
	}
	pipelinetest.Must(t, os.WriteFile(file, []byte("mysql: {dns: 'x'}\nshards: 0\n"), 0o600))
	for _, verb := range []string{"check", "print"} {
		if got := d.wantCode(t, 1, "config", verb, "--config", file); !strings.Contains(got.err, "mysql.dns") || got.out != "" {
			t.Errorf("%s of a wrong file said %q and %q", verb, got.err, got.out)
		}
	}
}

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/livez" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	addr := strings.TrimPrefix(server.URL, "http://")
	_, port, _ := strings.Cut(addr, ":")
	var d deployment
	d.wantCode(t, 0, "healthcheck", "--admin", addr)
	d.wantCode(t, 0, "healthcheck", "--admin", port)
	if got := d.wantCode(t, 1, "healthcheck", "--admin", addr, "--ready"); !strings.Contains(got.err, "503") {
		t.Errorf("not ready: %s", got.err)
	}
	d.wantCode(t, 1, "healthcheck", "--admin", "127.0.0.1:1")
	d.wantCode(t, 1, "healthcheck")
}

func TestTopOnce(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	d.die(t, d.schedule(t, "ann", 0))
	d.schedule(t, "ann", 0)
	d.wantCode(t, 0, "pause", "default", "--yes")
	frame := d.wantCode(t, 0, "top", "--once").out
	for _, want := range []string{"pending 1", "dead 1", "0 of 4 whole", "default                          1", "paused for", "UTC\n"} {
		if !strings.Contains(frame, want) {
			t.Errorf("the frame lacks %q", want)
		}
	}
	for line := range strings.SplitSeq(frame, "\n") {
		if n := len([]rune(line)); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if n := strings.Count(frame, "\n"); n > 24 || strings.Contains(frame, "\x1b") || t.Failed() {
		t.Errorf("the frame of %d lines:\n%s", n, frame)
	}
	d.env = append(d.env, "DUETIME_REDIS__ADDRS=127.0.0.1:1")
	if frame := d.wantCode(t, 2, "top", "--once").out; !strings.Contains(frame, "dead 1") || !strings.Contains(frame, "Redis is away") {
		t.Errorf("the frame without Redis:\n%s", frame)
	}
	if got := d.wantCode(t, 1, "top"); !strings.Contains(got.err, "--once") {
		t.Errorf("without a terminal: %s", got.err)
	}
}

func TestShellCompletion(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	d.schedule(t, "ann", time.Hour)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"task", "list", "--state", ""}, "pending\ndone\ncancelled\ndead\n"},
		{[]string{"task", "list", "--queue", ""}, "default\n"},
		{[]string{"dead", "retry", "--kind", ""}, "test.remind\n"},
		{[]string{"pause", ""}, "default\n"},
		{[]string{"leader", "resign", ""}, "event\ndaemon\n"},
	} {
		got := d.run(t, nil, append([]string{"__complete"}, c.args...)...)
		if !strings.HasPrefix(got.out, c.want+":4") || got.code != 0 {
			t.Errorf("%v offers %q (exit code %d), want %q", c.args, got.out, got.code, c.want)
		}
	}
	if got := d.wantCode(t, 0, "completion", "bash"); !strings.Contains(got.out, "complete") {
		t.Error("no completion for bash")
	}
}

func TestServersAwayFromTheOperatorsVerbs(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	for _, c := range []struct {
		away string
		args []string
	}{
		{"MYSQL__DSN", []string{"dead", "list"}},
		{"MYSQL__DSN", []string{"dead", "retry", "--all", "--yes"}},
		{"REDIS__ADDRS", []string{"shard", "stat"}},
		{"REDIS__ADDRS", []string{"shard", "rebuild", "--all", "--yes"}},
		{"MYSQL__DSN", []string{"leader", "show"}},
		{"MYSQL__DSN", []string{"leader", "resign", "event", "--yes"}},
		{"MYSQL__DSN", []string{"pause", "default", "--yes"}},
		{"MYSQL__DSN", []string{"resume", "default"}},
		{"REDIS__ADDRS", []string{"top", "--once"}},
		{"MYSQL__DSN", []string{"task", "retry", nobody}},
	} {
		if got := d.run(t, away(t, c.away), c.args...); got.code != 2 || got.err == "" {
			t.Errorf("%v without %s: exit code %d, want 2; said %q", c.args, c.away, got.code, got.err)
		}
	}
}
