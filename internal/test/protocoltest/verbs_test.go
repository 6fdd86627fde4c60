package protocoltest

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// verbs are what scripts may say; doc.go tells what each does.
var verbs map[string]func(s *scene, words []string)

func init() { //nolint:gochecknoinits // verbs run verbs
	verbs = map[string]func(s *scene, words []string){
		"shards": func(*scene, []string) {}, // play has read it
		"at":     at, "insert": insert, "move": move, "cancel": cancel, "rollback": rollback, "put": put, "flush": flush,
		"junk": junk, "stray": stray, "ghost": ghost, "redis": redis, "mysql": mysql, "kafka": kafka, "lock": lock, "unlock": lock,
		"elect": elect, "appoint": appoint, "dispatch": dispatchOnce, "pass": passOnce, "every": every,
		"start": start, "stop": stop, "crash": crash, "unread": unread,
		"settle": settle, "lose": lose, "handler": handler, "compensate": compensate, "pause": pause, "resume": pause, "during": during,
		"rows": rows, "standing": standing, "effects": effects, "markers": markers,
	}
}

// at <time> moves the clock.
func at(s *scene, words []string) {
	time.Sleep(time.Until(s.moment(words[0])))
	synctest.Wait() // for what happens at this moment
}

// options splits words of the form name=value from the others.
func options(words []string) (plain []string, named map[string]string) {
	named = map[string]string{}
	for _, w := range words {
		if name, value, is := strings.Cut(w, "="); is {
			named[name] = value
		} else {
			plain = append(plain, w)
		}
	}
	return plain, named
}

// insert <task> <time> [owner=] [kind=] [subject=] [lost]: commits a row, which is not put.
func insert(s *scene, words []string) {
	plain, named := options(words)
	owner := named["owner"]
	if owner == "" {
		owner = "ann"
	}
	kind := meal
	for _, k := range kinds {
		if k.Name() == named["kind"] {
			kind = k
		}
	}
	spec := s.nextSpec(func() task.Spec {
		return kind.New(owner, plain[0], task.At(s.moment(plain[1])), task.Subject(named["subject"]))
	})
	s.write(true, plain[0], func(tx *schedule.Tx) error {
		made, err := tx.Schedule(s.t.Context(), spec)
		s.name(plain[0], made.ID)
		return err
	})
}

// move <task> <time> and cancel <task> commit a change, which is not put.
func move(s *scene, words []string)   { s.write(true, words[0], s.change("move", words)) }
func cancel(s *scene, words []string) { s.write(true, words[0], s.change("cancel", words)) }

// rollback move <task> <time>|cancel <task> makes a version that never commits: "put <task> lost" puts it.
func rollback(s *scene, words []string) { s.write(false, words[1], s.change(words[0], words[1:])) }

func (s *scene) change(verb string, words []string) func(tx *schedule.Tx) error {
	return func(tx *schedule.Tx) (err error) {
		if verb == "cancel" {
			_, err = tx.Cancel(s.t.Context(), s.ids[words[0]])
		} else {
			_, err = tx.Reschedule(s.t.Context(), s.ids[words[0]], task.At(s.moment(words[1])))
		}
		return err
	}
}

// write makes versions of a task in a transaction and remembers them.
func (s *scene) write(commit bool, name string, fn func(tx *schedule.Tx) error) {
	tx, err := s.store.Begin(s.t.Context())
	pipelinetest.Must(s.t, err)
	door := schedule.NewTx(tx, s.store)
	if err := fn(door); err != nil {
		pipelinetest.Must(s.t, tx.Rollback())
		s.say("%s", strings.TrimSuffix(err.Error(), s.ids[name].String()))
		return
	}
	for _, written := range schedule.Inside(inside.Key{}, door).Ledger().Touched(0) {
		if commit {
			s.versions[fmt.Sprintf("%s v%d", s.names[written.ID], written.Version)] = written
			s.versions[s.names[written.ID]+" "] = written
		} else {
			s.versions[s.names[written.ID]+" lost"] = written
		}
	}
	if !commit {
		pipelinetest.Must(s.t, tx.Rollback())
		return
	}
	pipelinetest.Must(s.t, tx.Commit())
}

var workerID = regexp.MustCompile(`by worker [0-9a-f-]{36}`)

// row tells what a row says.
func (s *scene) row(t task.Task) string {
	text := fmt.Sprintf("%s v%d %v %s", s.names[t.ID], t.Version, t.State, s.since(t.RunAt))
	if !t.DueAt.Equal(t.RunAt) {
		text += ", due " + s.since(t.DueAt)
	}
	if t.Attempt > 0 {
		text += fmt.Sprintf(", attempt %d", t.Attempt)
	}
	if t.LastError != "" {
		text += ", " + workerID.ReplaceAllString(t.LastError, "by a worker")
	}
	return text
}

// put <task> [v<n>|lost] ... puts the newest committed version, an older one, or the one that never committed.
func put(s *scene, words []string) {
	var all []task.Task
	for i, w := range words {
		if _, known := s.ids[w]; !known {
			continue
		}
		which := ""
		if i+1 < len(words) && s.ids[words[i+1]] == (task.ID{}) {
			which = words[i+1]
		}
		written, known := s.versions[w+" "+which]
		if !known {
			s.t.Fatalf("nothing was written: %s %s", w, which)
		}
		all = append(all, written)
	}
	if err := s.index.Put(s.t.Context(), all); err != nil {
		s.say("failed")
	}
}

func flush(s *scene, _ []string) { s.memory.FlushAll() }

// junk <owner> [due] adds a member that can't be read to the owner's set, or to the due set of the owner's shard.
func junk(s *scene, words []string) {
	key := fmt.Sprintf("protocol:{%d}:owner:%s", protocol.Shard(words[0], s.shards), words[0])
	if len(words) > 1 {
		key = fmt.Sprintf("protocol:{%d}:due", protocol.Shard(words[0], s.shards))
	}
	_, err := s.memory.ZAdd(key, 1, fmt.Sprintf("junk%d", len(words)))
	pipelinetest.Must(s.t, err)
}

// ghost <name> <time> puts an entry of a task that has no row.
func ghost(s *scene, words []string) {
	spec := s.nextSpec(func() task.Spec { return meal.New("ann", words[0], task.At(s.moment(words[1]))) })
	row, err := spec.Resolve(time.Now())
	pipelinetest.Must(s.t, err)
	row.Shard = protocol.Shard(row.Owner, s.shards)
	s.name(words[0], row.ID)
	s.versions[words[0]+" "] = row
	pipelinetest.Must(s.t, s.index.Put(s.t.Context(), []task.Task{row}))
}

// stray <task> shard|queue puts the task's entry where it does not belong.
func stray(s *scene, words []string) {
	row := s.versions[words[0]+" "]
	if words[1] == "queue" {
		row.Queue = "bad"
	} else {
		row.Shard = (row.Shard + 1) % s.shards
	}
	pipelinetest.Must(s.t, s.index.Put(s.t.Context(), []task.Task{row}))
}

// redis away|back.
func redis(s *scene, words []string) {
	s.memory.SetError(map[string]string{"away": "LOADING away"}[words[0]])
}

// mysql away|back is for the rows of daemons, and for what workers take over.
func mysql(s *scene, words []string) { s.mysqlAway = words[0] == "away" }

// dispatch <leader> [<shard>] runs one pass of each of its shards, or of one.
func dispatchOnce(s *scene, words []string) {
	s.progress = false
	for shard, run := range s.leaders[words[0]] {
		if len(words) > 1 && words[1] != strconv.Itoa(shard) {
			continue
		}
		res, err := run(s.forever)
		switch {
		case err != nil:
			s.say("%s", s.plain(err))
		case res.Next != time.Second && !res.More:
			s.say("next in %v", res.Next)
		}
	}
	if !s.progress {
		s.say("no progress")
	}
}

// every <interval> until <time> <verb> ... repeats a verb, and tells what it says and when.
func every(s *scene, words []string) {
	interval, err := time.ParseDuration(words[0])
	pipelinetest.Must(s.t, err)
	for end := s.moment(words[2]); time.Now().Before(end); time.Sleep(interval) {
		for _, said := range s.do(strings.Join(words[3:], " ")) {
			s.say("%s: %s", s.since(time.Now()), said)
		}
	}
}

// plain tells an error without what differs from run to run.
func (s *scene) plain(err error) string {
	text := err.Error()
	for id, name := range s.names {
		text = strings.ReplaceAll(text, id.String(), name)
	}
	return text
}

// readTime is how long the pass "compensate" reads messages: some tries, if it can't take them.
const readTime = 500 * time.Millisecond

// pass <daemon> <name> runs one pass of a daemon.
func passOnce(s *scene, words []string) {
	s.calls = map[string]int{}
	ctx, stop := context.WithCancel(s.t.Context())
	defer stop()
	name := strings.Join(words[1:], " ")
	run := s.daemons[words[0]][name]
	if run == nil {
		s.t.Fatalf("%s has no pass %q", words[0], name)
	}
	if name == "compensate" {
		time.AfterFunc(readTime, stop)
	}
	res, err := run(ctx)
	if err != nil {
		s.say("%s", s.plain(err))
	}
	if res.More {
		s.say("more")
	}
}

// take reads all unread hints of a queue, and commits them.
func (s *scene) take(queue string) (hints []protocol.Hint) {
	ctx, stop := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() {
		done <- s.log.Consume(ctx, queue, func(ctx context.Context, session protocol.Session) error {
			for {
				all, err := session.Fetch(ctx)
				if err != nil {
					return err
				}
				next := map[int]int64{}
				for _, d := range all {
					hints = append(hints, d.Hint)
					next[d.Partition] = d.Offset + 1
				}
				if err := session.Commit(ctx, next); err != nil {
					return err
				}
			}
		})
	}()
	synctest.Wait()
	stop()
	pipelinetest.Must(s.t, <-done)
	return hints
}

func (s *scene) takeAll() []protocol.Hint {
	hints := append(s.take("default"), s.take("bad")...)
	slices.SortStableFunc(hints, func(a, b protocol.Hint) int { return a.ID.Compare(b.ID) })
	return hints
}

// lose loses all unread hints; the group has read them.
func lose(s *scene, _ []string) {
	for _, h := range s.takeAll() {
		s.say("%s v%d", s.names[h.ID], h.Version)
	}
}

// compensate <task> ... sends a message.
func compensate(s *scene, words []string) {
	var ids []task.ID
	for _, w := range words {
		ids = append(ids, s.ids[w])
	}
	pipelinetest.Must(s.t, s.log.Compensate(s.t.Context(), protocol.Compensation{IDs: ids}))
}

// during <call>[#n] <verb> ... runs a verb within the next such call.
func during(s *scene, words []string) {
	s.armed[words[0]] = append(s.armed[words[0]], strings.Join(words[1:], " "))
}
