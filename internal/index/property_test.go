package index_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

// model is the expected state of one shard.
type model struct {
	due, owner map[task.ID]task.Task // the task whose time and version the set has
	epoch      int64
	gen        string // a token while building, "complete" + token afterwards
}

func newModel() *model {
	return &model{due: map[task.ID]task.Task{}, owner: map[task.ID]task.Task{}}
}

// newerThan is the order of versions.
func newerThan(a, b int64) bool {
	for ahead := int64(1); ahead < protocol.VersionWindow/2; ahead++ {
		if (b+ahead)%protocol.VersionWindow == a%protocol.VersionWindow {
			return true
		}
	}
	return false
}

// reference returns the newer version of the two sets, and whether either has one.
func (m *model) reference(id task.ID) (int64, bool) {
	d, inDue := m.due[id]
	o, inOwner := m.owner[id]
	if inOwner && (!inDue || newerThan(o.Version, d.Version)) {
		return o.Version, true
	}
	return d.Version, inDue
}

func (m *model) put(t task.Task) {
	v, stands := m.reference(t.ID)
	same := v%protocol.VersionWindow == t.Version%protocol.VersionWindow
	switch {
	case t.State != task.Pending:
		if !stands || !newerThan(v, t.Version) {
			delete(m.due, t.ID)
			delete(m.owner, t.ID)
		}
	case !stands || same || newerThan(t.Version, v):
		m.due[t.ID], m.owner[t.ID] = t, t
	}
}

// fenced raises the epoch unless a newer one is stored.
func (m *model) fenced(epoch int64) int64 {
	if m.epoch > epoch {
		return m.epoch
	}
	m.epoch = epoch
	return 0
}

func (m *model) ack(entries []protocol.Entry) {
	for _, e := range entries {
		if d, ok := m.due[e.ID]; ok && protocol.ScoreOf(d) == e.Score {
			delete(m.due, e.ID)
		}
	}
}

func (m *model) claim(epoch, ms int64, most int) protocol.Claim {
	if f := m.fenced(epoch); f > 0 {
		return protocol.Claim{Fenced: f}
	}
	c := protocol.Claim{Marked: len(m.gen) > 8 && m.gen[:8] == "complete"}
	for _, e := range sorted(m.due) { // all are due within a second of each other
		switch runAt := e.Score.RunAt(); {
		case runAt.After(at(ms)):
			c.Coming++
		case len(c.Entries) < most:
			c.Entries = append(c.Entries, e)
			continue
		}
		if c.Next.IsZero() {
			c.Next = e.Score.RunAt()
		}
	}
	return c
}

func (m *model) standing(id task.ID) protocol.Standing {
	s := absent
	if d, ok := m.due[id]; ok {
		s.Due = protocol.ScoreOf(d)
	}
	if o, ok := m.owner[id]; ok {
		s.Owner = protocol.ScoreOf(o)
	}
	return s
}

// sorted returns the set as Redis orders it: by score, then by member.
func sorted(set map[task.ID]task.Task) []protocol.Entry {
	return slices.SortedFunc(maps.Values(entriesOf(set)), func(a, b protocol.Entry) int {
		if a.Score != b.Score {
			return int(min(max((a.Score-b.Score)*protocol.VersionWindow, -1), 1))
		}
		return slices.Compare([]byte(a.Member), []byte(b.Member))
	})
}

func entriesOf(set map[task.ID]task.Task) map[task.ID]protocol.Entry {
	all := map[task.ID]protocol.Entry{}
	for id, t := range set {
		all[id] = entry(t)
	}
	return all
}

// machine runs the same steps on an Index and its model.
type machine struct {
	x       *index.Index
	m       *model
	tasks   []task.Task
	claimed []protocol.Entry
	tokens  []string
}

func (c *machine) must(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// version draws a writer's version: mostly near 4096, so that the order across the wrap is tested.
func version() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(4090, 4102), rapid.Int64Range(1, 3*protocol.VersionWindow))
}

func (c *machine) draw(t *rapid.T) task.Task {
	p := rapid.SampledFrom(c.tasks).Draw(t, "task")
	p.RunAt = at(rapid.Int64Range(0, 20).Draw(t, "ms"))
	p.Version = version().Draw(t, "version")
	return p
}

func (c *machine) put(t *rapid.T) {
	p := c.draw(t)
	p.State = rapid.SampledFrom([]task.State{task.Pending, task.Pending, task.Done, task.Cancelled}).Draw(t, "state")
	for range rapid.IntRange(1, 2).Draw(t, "times") { // a repeat changes nothing
		c.must(t, c.x.Put(context.Background(), []task.Task{p}))
	}
	c.m.put(p)
}

func (c *machine) claim(t *rapid.T) {
	epoch, ms := rapid.Int64Range(1, 4).Draw(t, "epoch"), rapid.Int64Range(-1, 21).Draw(t, "now")
	most := rapid.IntRange(1, 8).Draw(t, "limit")
	var acked []protocol.Entry
	if rapid.Bool().Draw(t, "with ack") {
		acked = c.claimed
	}
	got, err := c.x.Claim(context.Background(), 0, epoch, at(ms), 0, most, acked)
	c.must(t, err)
	if epoch >= c.m.epoch {
		c.m.ack(acked)
	}
	want := c.m.claim(epoch, ms, most)
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("claim (-want +got):\n%s", d)
	}
	if got.Fenced == 0 {
		c.claimed = got.Entries
	}
}

func (c *machine) ack(t *rapid.T) {
	epoch := rapid.Int64Range(1, 4).Draw(t, "epoch")
	got, err := worldtest.Acknowledge(context.Background(), c.x, 0, epoch, c.claimed)
	c.must(t, err)
	if len(c.claimed) == 0 {
		return
	}
	want := c.m.fenced(epoch)
	if want == 0 {
		c.m.ack(c.claimed)
	}
	if got != want {
		t.Fatalf("ack fenced by %d, want %d", got, want)
	}
}

func (c *machine) repair(t *rapid.T) {
	p := c.draw(t)
	stands := c.m.standing(p.ID)
	seen := stands
	if rapid.Bool().Draw(t, "stale") {
		other := c.draw(t)
		seen = rapid.SampledFrom([]protocol.Standing{
			absent, both(other), {Due: protocol.NoScore, Owner: stands.Owner}, {Due: stands.Due, Owner: protocol.ScoreOf(other)},
		}).Draw(t, "seen")
	}
	right := rapid.SampledFrom([]protocol.Standing{both(p), absent, {Due: protocol.NoScore, Owner: protocol.ScoreOf(p)}}).Draw(t, "right")
	got, err := c.x.Repair(context.Background(), []protocol.Repair{{Task: p, Seen: seen, Right: right}})
	c.must(t, err)
	want := 0
	if seen == stands && right != seen {
		want = 1
		replace(c.m.due, p, right.Due)
		replace(c.m.owner, p, right.Owner)
	}
	if got != want {
		t.Fatalf("repair changed %d, want %d", got, want)
	}
}

func replace(set map[task.ID]task.Task, t task.Task, score protocol.Score) {
	if score == protocol.NoScore {
		delete(set, t.ID)
	} else {
		set[t.ID] = t
	}
}

func (c *machine) begin(t *rapid.T) {
	token, err := c.x.BeginRebuild(context.Background(), 0)
	c.must(t, err)
	c.tokens = append(c.tokens, token)
	c.m.gen = token
}

func (c *machine) end(t *rapid.T) {
	if len(c.tokens) == 0 {
		t.Skip("no rebuild was begun")
	}
	token := rapid.SampledFrom(c.tokens).Draw(t, "token")
	got, err := c.x.EndRebuild(context.Background(), 0, token)
	c.must(t, err)
	want := c.m.gen == token || c.m.gen == "complete"+token
	if want {
		c.m.gen = "complete" + token
	}
	if got != want {
		t.Fatalf("end of rebuild: %v, want %v", got, want)
	}
}

func (c *machine) flush(t *rapid.T) {
	for _, name := range []string{"due", "epoch", "gen", "claimed"} {
		c.must(t, c.x.Client().Del(context.Background(), c.x.Key(0, name)).Err())
	}
	for _, p := range c.tasks {
		c.must(t, c.x.Client().Del(context.Background(), c.x.Key(0, "owner:"+p.Owner)).Err())
	}
	c.m = newModel()
}

// check compares both sets completely.
func (c *machine) check(t *rapid.T) {
	due, _, err := c.x.ScanDue(context.Background(), 0, protocol.ScanCursor{}, 100)
	c.must(t, err)
	var owned []protocol.Entry
	for o := range owners {
		some, _, err := worldtest.OwnerEntries(context.Background(), c.x, 0, ownerName(o))
		c.must(t, err)
		owned = append(owned, some...)
	}
	for what, d := range map[string]string{
		"due":    cmp.Diff(entriesOf(c.m.due), byID(due)),
		"owners": cmp.Diff(entriesOf(c.m.owner), byID(owned)),
	} {
		if d != "" {
			t.Fatalf("%s (-want +got):\n%s", what, d)
		}
	}
}

func byID(all []protocol.Entry) map[task.ID]protocol.Entry {
	m := map[task.ID]protocol.Entry{}
	for _, e := range all {
		m[e.ID] = e
	}
	return m
}

const owners = 2

func ownerName(n int) string { return "owner-" + strconv.Itoa(n) }

func TestShardFollowsItsModel(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]index.Config{
		"redis":     {Addrs: []string{pipelinetest.Redis(t).Addr()}},
		"miniredis": {Addrs: []string{worldtest.Memory(t).Addr()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				cfg.Namespace = pipelinetest.Namespace(t)
				cfg.ReadTimeout = limit
				x, err := index.Open(cfg)
				pipelinetest.Must(t, err)
				defer func() { _ = x.Close() }()
				c := &machine{x: x, m: newModel()}
				for i := range 5 {
					c.tasks = append(c.tasks, pending(ownerName(i%owners), 0, 1))
				}
				rt.Repeat(map[string]func(*rapid.T){
					"put": c.put, "put again": c.put, "claim": c.claim, "ack": c.ack, "repair": c.repair,
					"begin": c.begin, "end": c.end, "flush": c.flush, "": c.check,
				})
			})
		})
	}
}
