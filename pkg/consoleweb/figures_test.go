package consoleweb_test

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/consoleweb"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// figures returns a view once it has figures.
func (p *pages) figures(at string) (page string) {
	p.t.Helper()
	pipelinetest.Await(p.t, "figures of "+at, func() bool {
		page = p.get(200, at)
		return !strings.Contains(page, "data-reading")
	})
	return page
}

// hasAll reports whether a page has all parts.
func hasAll(page string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(page, part) })
}

// figuresWith returns a view once its figures, read anew, have all parts. Rows that a test has put far back are found a bit later.
func (p *pages) figuresWith(at string, parts ...string) (page string) {
	p.t.Helper()
	pipelinetest.Await(p.t, at+" with "+strings.Join(parts, ", "), func() bool {
		p.anew()
		page = p.figures(at)
		return hasAll(page, parts)
	})
	return page
}

// anew forgets what was read.
func (p *pages) anew() {
	p.t.Helper()
	h, err := consoleweb.Handler(p.p.Console(), consoleweb.Config{Open: "ann@desk"})
	pipelinetest.Must(p.t, err)
	p.h = h
}

func (p *pages) wantHas(at, page string, parts ...string) {
	p.t.Helper()
	for _, part := range parts {
		if !strings.Contains(page, part) {
			p.t.Errorf("%s lacks %q: %s", at, part, page)
		}
	}
}

// Where nothing has fired there is no lag: 0.0 ms would look like a good figure.
func TestNothingHasFired(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.wantHas("now without tasks", p.figures("now"), ">On time: nothing was due in 15 min.</h2>", "Nothing fired, and nothing is due.")
	p.wantHas("now of a wrong name", p.figures("now?kind="+url.QueryEscape("order.chagre")), "order.chagre has fired nothing in this span, and nothing of it is due.")
	p.schedule(charge.New("ada", Charge{1}, task.In(0)))
	p.exec("UPDATE duetime_tasks SET due_at = due_at - 7200000, run_at = due_at")
	p.figuresWith("now", `<h2 class="why warn verdict">No living worker runs queue payments.</h2>`, "<p>Late tasks: 1, the oldest by 2 h.", ">–</span></td>")
}

// The landing page says which kind is late, by how much, and that all else is not. What is late stands in the kind's row, and in
// the picture, on the side of what was.
func TestNowSaysWhatIsLate(t *testing.T) {
	t.Parallel()
	p := open(t)
	began := time.Now().Add(-40 * time.Minute).UnixMilli()
	const runs = "REPLACE INTO duetime_processes (id, role, host, version, started_at, seen_at, detail) VALUES (?, 'worker', 'there', ?, ?, ?, ?)"
	works := func() { // a worker that reports itself, and runs nothing
		now := time.Now().Add(10 * time.Second).UnixMilli() // it stays alive for a slow machine
		p.exec(runs, "w", "1.42.0", began, now, `{"pid": 1, "queues": ["payments"], "kinds": ["order.charge"]}`)
		p.anew()
	}
	shows := func(parts ...string) (page string) {
		pipelinetest.Await(t, "now with "+strings.Join(parts, ", "), func() bool {
			works()
			page = p.figures("now")
			return hasAll(page, parts)
		})
		return page
	}
	p.exec(runs, "v", "1.41.0", began-10_000_000, began-9_000_000, "{}")
	const ended = "UPDATE duetime_tasks SET state = 1, version = 2, created_at = ?, due_at = ?, run_at = ?, finished_at = ?, updated_at = ?, ran = ? WHERE id = ?"
	past, ran := time.Now().Add(-10*time.Minute).UnixMilli(), protocol.Ran{Worker: 1, Handler: 12 * time.Millisecond}
	for i, lag := range []int64{4, 79_000} {
		id := p.schedule(charge.New("ada", Charge{i}, task.In(time.Hour))).ID
		p.exec(ended, past-1000, past, past, past+lag, past+lag, ran.Pack(), id[:])
	}
	for i := range 40 {
		p.schedule(charge.New("bob", Charge{i}, task.In(30*time.Minute)))
	}
	page := shows(`<h2 class="why verdict">Nothing is late now.</h2>`)
	p.wantHas("now, after a task was late", page, "<p>Of 2 tasks that fired in 15 min, 1 came over a second late.",
		"4.0 ms / 1 min 19 s", "12 ms / 12 ms", "40 order.charge", `class="curve late" d="M`, `class="curve p50" d="M`, ">0.1 ms</text>", ">1.42.0 began</text>")
	late := p.schedule(charge.New("eve", Charge{1}, task.In(0)))
	p.exec("UPDATE duetime_tasks SET due_at = due_at - 7200000, run_at = due_at WHERE id = ?", late.ID[:])
	shows("Tasks of queue payments are late, and nothing that was read says why: 1, most of kind order.charge, the oldest by 2 h.",
		`data-label="Late now"><a href="tasks?before=now&amp;kind=order.charge`)
	_, err := p.p.Console().Pause(t.Context(), "payments")
	pipelinetest.Must(t, err)
	shows("Queue payments has been paused for ")
	other := p.figures("now?kind=order.other")
	if strings.Contains(other, "40 order.charge") {
		t.Errorf("the page of another kind has its peak: %s", other)
	}
}

// That nobody takes what is ahead is said before it is late, of a kind and of a queue: only where some worker reports itself.
func TestNowSaysWhatNoWorkerTakes(t *testing.T) {
	t.Parallel()
	p := open(t)
	for i := range 40 {
		p.schedule(charge.New("bob", Charge{i}, task.In(30*time.Minute)))
	}
	if page := p.figuresWith("now", "40 order.charge"); strings.Contains(page, "no worker reports") {
		t.Errorf("without a worker that reports itself: %s", page)
	}
	now := time.Now().Add(time.Minute).UnixMilli() // it stays alive for a slow machine
	p.exec("INSERT INTO duetime_processes (id, role, host, version, started_at, seen_at, detail) VALUES ('w', 'worker', 'there', '1', ?, ?, ?)", now, now,
		`{"pid": 1, "queues": ["mails"], "kinds": ["mail.send"]}`)
	p.exec("UPDATE duetime_tasks SET queue = 'duetime.witness', kind = 'duetime.witness' ORDER BY id LIMIT 1")
	p.exec("INSERT INTO duetime_processes (id, role, host, version, started_at, seen_at, detail) SELECT 'silent', role, host, version, started_at, ? - 600000, detail "+
		"FROM duetime_processes WHERE id = 'w'", now)
	p.figuresWith("now", "<b>1 · 1, 1 silent</b>")
	for _, at := range []string{"now", "now?by=queue"} {
		page := p.figuresWith(at, "No living worker runs queue payments.</h2>", "<p>Tasks that become due there within 1 h: 39, the first in 29 min.",
			`· 39 <span class="state late">no worker reports</span>`, ` late" x="`, `>no worker reports</text>`, "duetime.witness")
		if n := strings.Count(page, `<span class="state late">no worker reports`); n != 1 { // the daemon runs the witness's
			t.Errorf("%s: %d rows without a worker", at, n)
		}
	}
}

// The landing page names what could not be read, in the user's language: rules that need it say nothing.
func TestNowSaysWhatIsNotRead(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.exec("RENAME TABLE duetime_limits TO elsewhere")
	p.figuresWith("now", "Not read: pauses and limits.")
}

// Without the frame, which takes longest to read, the landing page shows the rest, and why it lacks the frame.
func TestNowWithoutTheFrame(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.exec("RENAME TABLE duetime_epochs TO elsewhere")
	page := p.figures("now")
	p.wantHas("now without the frame", page, "Nothing fired, and nothing is due.", `<p class="mistake" role="alert">`, "duetime_epochs")
	if strings.Contains(page, "MySQL <b>") {
		t.Errorf("the servers' figures were not read: %s", page)
	}
}

// A number that is a lower bound has a plus, and an estimate says that it is one.
func TestSystemSaysWhatItDidNotCount(t *testing.T) {
	t.Parallel()
	p := open(t)
	made := p.schedule(charge.New("ada", Charge{1}, task.In(0)))
	p.exec("INSERT INTO duetime_tasks (id, kind, owner, queue, due_at, run_at, payload, created_at, updated_at)"+
		" SELECT UNHEX(LPAD(HEX(seq), 32, '0')), kind, owner, queue, due_at, run_at, payload, created_at, updated_at FROM duetime_tasks, "+
		pipelinetest.Numbers(1, 20_000)+" WHERE id = ?", made.ID[:])
	page := p.figuresWith("system", `<td class="n">20,000+</td>`)
	p.wantHas("system", page, `>pending</a></dt><dd>20,001</dd>`)
	p.figuresWith("now", ">≈ 20,000</a>")
}

// The landing page has room for the first answers only, and says how many there are besides.
func TestNowHasTheFirstAnswers(t *testing.T) {
	t.Parallel()
	p := open(t)
	const dead = "UPDATE duetime_tasks SET state = 3, version = 2, last_error = ?, finished_at = ?, updated_at = finished_at WHERE id = ?"
	for _, reason := range []string{"a", "b", "c", "d", "e", "f"} {
		id := p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour))).ID
		p.exec(dead, "bank "+reason, time.Now().UnixMilli(), id[:])
	}
	page := p.figuresWith("now", "2 more: duetime why")
	if n := strings.Count(page, "1 task of kind order.charge died of one error"); n != 4 {
		t.Errorf("%d answers, want 4: %s", n, page)
	}
}

func wantStates(t *testing.T, what string, want, got []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// A queue whose tasks are late does not "run", and one without a living worker says so.
func TestQueueThatIsLate(t *testing.T) {
	t.Parallel()
	p := open(t)
	state := func(h string) (states []string) {
		for _, e := range elements(t, h) {
			if e.name == "h2" && e.text == "Processes" {
				break // they have states of their own
			}
			if e.name == "span" && strings.HasPrefix(e.attrs["class"], "state") {
				states = append(states, e.text)
			}
		}
		return states
	}
	wantStates(t, "a queue without tasks and workers", []string{"no worker reports"}, state(p.figures("system")))
	p.schedule(charge.New("ada", Charge{1}, task.In(0)))
	p.exec("UPDATE duetime_tasks SET due_at = due_at - 7200000, run_at = due_at")
	late := p.figuresWith("system", `class="state late"`)
	wantStates(t, "a queue with a late task, without workers", []string{"late", "no worker reports"}, state(late))
	mux, began, end := worker.NewMux(), make(chan struct{}), make(chan struct{})
	worker.Handle(mux, charge, func(ctx context.Context, _ *worker.Tx, _ worker.Task[Charge]) error {
		close(began)
		select {
		case <-end:
		case <-ctx.Done():
		}
		return nil
	})
	worked := make(chan error, 1)
	go func() { worked <- p.p.Work(t.Context(), mux) }()
	<-began
	pipelinetest.Await(t, "the worker's report", func() bool {
		alive, err := p.p.Console().Processes(t.Context())
		return err == nil && len(alive) == 1
	})
	p.anew()
	wantStates(t, "a queue with a late task and a worker", []string{"late"}, state(p.figures("system")))
	close(end)
	pipelinetest.Await(t, "the task to end", func() bool {
		p.anew()
		return slices.Equal(state(p.figures("system")), []string{"runs"})
	})
}

// The page says what the witness has found, and nothing where there is none.
func TestSystemShowsTheWitness(t *testing.T) {
	t.Parallel()
	p := open(t)
	if page := p.figures("system"); strings.Contains(page, "witness") {
		t.Errorf("without a witness: %s", page)
	}
	for _, c := range []struct{ faults, want string }{
		{"", "The witness found no broken promise in its last 1 plays."},
		{"doubled,stale", "1 plays of the witness had a promise broken, the newest: doubled,stale."},
	} {
		id := task.NewID()
		p.exec("INSERT INTO duetime_witness_plays (id, judged_at, faults) VALUES (?, ?, ?)", id[:], time.Now().UnixMilli(), c.faults)
		p.anew()
		p.wantHas("system", p.figures("system"), c.want)
	}
}

// Who comes back after a while sees at once that the figures are old. The page asks for newer ones by itself.
func TestOldFiguresSayTheyAre(t *testing.T) {
	t.Parallel()
	p := open(t)
	const old = "These figures are old."
	for _, at := range []string{"system", "now", "dead"} {
		h, age, err := consoleweb.HandlerWithReadings(p.p.Console(), consoleweb.Config{Open: "ann@desk"})
		pipelinetest.Must(t, err)
		p.h = h // its readings wait for none of another view
		if page := p.figures(at); strings.Contains(page, old) {
			t.Errorf("%s: new figures are called old: %s", at, page)
		}
		age(time.Minute, time.Hour)
		p.wantHas(at, p.get(200, at), old, "as of 1 min", "data-reading hx-get=")
		age(0, 0)
		if page := p.get(200, at+"?part=live"); strings.Contains(page, old) {
			t.Errorf("%s: the page's next look did not wait for new figures: %s", at, page)
		}
	}
}

// On a quiet day the page knows no capacity. After a crowd it says what workers did while tasks waited, and how long that takes.
func TestCapacityIsThatUnderLoad(t *testing.T) {
	t.Parallel()
	p := open(t)
	var ids []task.ID
	for range 2 * 60 {
		ids = append(ids, p.schedule(charge.New("ada", Charge{1}, task.In(3*time.Hour))).ID)
	}
	p.schedule(charge.New("bob", Charge{1}, task.In(70*time.Minute)))
	ended := func(due, end func(nth int) int64) {
		for i, id := range ids {
			p.exec("UPDATE duetime_tasks SET state = 1, version = 2, created_at = ?, due_at = ?, run_at = ?, finished_at = ?, updated_at = ? WHERE id = ?",
				due(i)-1000, due(i), due(i), end(i), end(i), id[:])
		}
	}
	minute := time.Now().Truncate(time.Minute).Add(-5 * time.Minute).UnixMilli()
	evenly := func(nth int) int64 { return minute + int64(nth)*450 }
	ended(evenly, evenly)
	p.wantHas("ahead on a quiet day", p.figures("now?span=6h"), "Capacity is not known")
	ended(func(int) int64 { return minute }, func(nth int) int64 { return minute + int64(nth)*100 })
	p.anew()
	p.wantHas("ahead after a crowd", p.figures("now?span=6h"), "under load workers ended 10 a second (", "about 100 ms of work")
}

// Without Redis and elections nothing is called away, and nobody is missed.
func TestHealthOfAnEmbeddedPipeline(t *testing.T) {
	t.Parallel()
	p := open(t)
	page := p.figures("system")
	p.wantHas("system", page, "Nobody is elected here")
	for _, wrong := range []string{"Redis does not answer", "no living process", "Leaders", "Shards", "can&#39;t be read"} {
		if strings.Contains(page, wrong) {
			t.Errorf("health says %q: %s", wrong, page)
		}
	}
}

// A task that is done at its first attempt has no failure. Its count of these is not called one of attempts.
func TestFailuresAreCalledSo(t *testing.T) {
	t.Parallel()
	p := open(t)
	made := p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour)))
	p.exec("UPDATE duetime_tasks SET state = 1, version = 2, finished_at = updated_at")
	page := p.get(200, "task?id="+made.ID.String())
	p.wantHas("the task", page, "<dt>Failures</dt><dd>0 of 1 attempts</dd>")
	if strings.Contains(page, "How it took effect") {
		t.Error("a row that does not say how its task ran has a bar")
	}
	ran := protocol.Ran{Worker: 1, Taken: 90 * time.Millisecond, Ended: 10 * time.Millisecond, Handler: 7 * time.Millisecond}
	p.exec("UPDATE duetime_tasks SET run_at = created_at, finished_at = created_at + 100, ran = ?", ran.Pack())
	p.wantHas("how it took effect", p.get(200, "task?id="+made.ID.String()), "By a worker that is not known any more.",
		`<rect class="taken" x="0" y="0" width="900" height="16"/><rect class="ended" x="900" y="0" width="100" height="16"/>`,
		`<li><span class="key ended"></span> runs, up to COMMIT <b>10 ms</b></li>`, "of which its own handler <b>7.0 ms</b>")
	list := p.get(200, "tasks?owner=ada")
	p.wantHas("the list", list, "<th>Ended</th>", "Queue payments</p>")
	if strings.Contains(list, "Failures") || strings.Contains(list, "<th>Queue") {
		t.Errorf("the list has a column that says nothing: %s", list)
	}
	p.exec("UPDATE duetime_tasks SET attempt = 1")
	list = p.get(200, "tasks?owner=ada")
	p.wantHas("the list", list, `<th class="n">Failures</th>`, `<td class="n">1/1</td>`)
	if strings.Contains(list, "Attempts") {
		t.Errorf("the list counts attempts: %s", list)
	}
}

// The page of a task has on one axis what happened to it and what will, and says first how it ended.
func TestTaskOnItsLine(t *testing.T) {
	t.Parallel()
	p := open(t)
	made := p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour)))
	at := "task?id=" + made.ID.String()
	p.wantHas("a task to come", p.get(200, at), `class="point made"`, `class="point pending"`, `class="now"`, `data-copy="`+made.ID.String()+`"`)
	for i, fault := range []string{"bank away", "bank shut"} {
		p.exec("INSERT INTO duetime_history (at, task, event, actor, detail) VALUES (?, ?, 'failed', 'worker', ?)", made.CreatedAt.UnixMilli()+int64(i), made.ID[:], fault)
	}
	page := p.get(200, at)
	if hollow := strings.Count(page, `class="point was"`); hollow != 0 || !strings.Contains(page, `class="break" x=`) {
		t.Errorf("a task that was not moved, of seconds in an hour, has %d former due times, and its axis: %s", hollow, page)
	}
	p.exec("INSERT INTO duetime_history (at, task, event, actor, detail) VALUES (?, ?, 'moved', 'ann', ?)", made.CreatedAt.UnixMilli()+1, made.ID[:],
		"by -40m0s to "+made.DueAt.UTC().Format(time.RFC3339))
	p.wantHas("a task that was moved", p.get(200, at), `class="point was"`, "Was "+made.DueAt.Add(40*time.Minute).UTC().Format("15:04:05")+"</text>")
	p.exec("UPDATE duetime_tasks SET attempt = 2, last_error = 'bank shut', run_at = due_at + 5000")
	page = p.get(200, at)
	p.wantHas("a task that is retried", page, `class="point was"`, "Next attempt", `<pre class="error">bank shut</pre>`, `<pre class="error">bank away</pre>`)
	if tries := strings.Count(page, `class="point dead"`); tries != 2 {
		t.Errorf("got %d attempts on the line, want 2", tries)
	}
	if shown := strings.Count(page, `<pre class="error">bank shut`); shown != 1 {
		t.Errorf("the last error is shown %d times", shown)
	}
	p.exec("UPDATE duetime_tasks SET state = 1, finished_at = due_at + 4, updated_at = due_at + 4")
	page = p.get(200, at)
	p.wantHas("a done task", page, `<h2 class="why verdict">Done 4.0 ms after its time, at `, `class="point done"`)
	if strings.Contains(page, `class="now"`) {
		t.Error("a task that has ended waits for nothing")
	}
}

// The menu says how many tasks are dead, as the figures of Now do; on the page and with its next figures.
func TestMenuCountsTheDead(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.dead(2)
	p.figuresWith("now", `<b id="dead-count">2</b>`)
	p.wantHas("new figures", p.get(200, "now?part=live"), `<b id="dead-count" hx-swap-oob="true">2</b>`)
	p.wantHas("another view", p.get(200, "system"), `<b id="dead-count">2</b>`)
}

// A count has one height on both sides of now. A burst beside usual steps has a notch, as it is higher than the scale.
func TestCountsHaveOneScale(t *testing.T) {
	t.Parallel()
	p := open(t)
	ended := p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour))).ID
	past := time.Now().Add(-10 * time.Minute).UnixMilli()
	p.exec("UPDATE duetime_tasks SET state = 1, version = 2, created_at = ?, due_at = ?, run_at = ?, finished_at = ?, updated_at = ? WHERE id = ?", past, past, past, past, past, ended[:])
	p.schedule(charge.New("ada", Charge{1}, task.In(20*time.Minute)))
	page := p.figuresWith("now", `class="fired" d="M`, `class="bar" d="M`)
	tops := regexp.MustCompile(`class="(?:fired|bar)" d="M\S+ 88V(\S+)h`).FindAllStringSubmatch(page, -1)
	if len(tops) != 2 || tops[0][1] != tops[1][1] {
		t.Errorf("one task fired and one due have the heights %v: %s", tops, page)
	}
	for i := range 23 {
		p.schedule(charge.New("ada", Charge{i}, task.In(time.Duration(2*i+5)*time.Minute)))
	}
	for i := range 400 {
		p.schedule(charge.New("ada", Charge{i}, task.In(30*time.Minute)))
	}
	if page = p.figuresWith("now", "400 order.charge"); !strings.Contains(page, "10V0h") {
		t.Errorf("a burst has no notch: %s", page)
	}
}
