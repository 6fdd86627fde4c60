package console

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/why"
	"github.com/duetime/duetime/pkg/console/internal/views"
)

const (
	serverTimeout = 2 * time.Second // of a server's answer
	partTimeout   = 5 * time.Second // of one part of what is read
	behindTimeout = 2 * time.Second // of the search for late tasks behind more than can be counted
	firedSpan     = 15 * time.Minute
	comingStep    = time.Minute
	comingSteps   = 60
	newestDead    = 1000
	maxUnhandled  = 5000 // of the next tasks, in search of those that wait for a worker of their kind
)

// facts is why.Facts while it is read.
type facts struct {
	why.Facts

	c         *Console
	mu        sync.Mutex // of Away and Unread
	limits    []QueueLimit
	degraded  map[string]int
	waiting   []store.Waiting
	ahead     []store.Waiting
	fired     LagOver
	unhandled []protocol.Unhandled
	alive     []store.Process
	epochs    map[string]int64
	ended     map[string]views.Ended
	coming    []views.AheadStep
}

// facts reads what the rules judge: all parts at once, and what only late tasks need if some are late.
func (c *Console) facts(ctx context.Context) (why.Facts, error) {
	f := &facts{Facts: why.Facts{Away: map[string]string{}}, c: c}
	var asked sync.WaitGroup
	for server, ask := range c.cfg.Servers {
		asked.Go(func() { f.ask(ctx, server, ask) })
	}
	answers, err := f.clock(ctx)
	if err != nil {
		asked.Wait()
		return why.Facts{}, err
	}
	if answers {
		f.readParts(ctx, map[string]func(ctx context.Context) error{
			why.PartWaiting: f.readWaiting, why.PartQueues: f.readQueues, why.PartProcesses: f.readProcesses, why.PartLeaders: f.readLeaders,
			why.PartDead: f.readDead, why.PartFired: f.readFired,
		})
		if slices.ContainsFunc(f.waiting, func(w store.Waiting) bool { return w.Late > 0 }) {
			f.readParts(ctx, map[string]func(ctx context.Context) error{why.PartRates: f.readRates, why.PartHandlers: f.readHandlers})
		}
	}
	asked.Wait()
	for _, server := range []string{why.Redis, why.Kafka, why.ZooKeeper} {
		if c.index != nil && c.cfg.Servers[server] == nil {
			f.Unread = append(f.Unread, server)
		}
	}
	f.join()
	slices.Sort(f.Unread)
	return f.Facts, ctx.Err()
}

// clock reads the database's clock, and reports whether the database answers.
func (f *facts) clock(ctx context.Context) (answers bool, err error) {
	asked, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	if f.Now, err = f.c.store.Clock(asked); err == nil {
		return true, nil
	}
	if ctx.Err() != nil || !f.c.store.Unavailable(err) && !errors.Is(err, context.DeadlineExceeded) {
		return false, err
	}
	f.away(why.MySQL, err)
	f.Now = time.Now()
	return false, nil
}

func (f *facts) ask(ctx context.Context, server string, ask func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	if err := ask(ctx); err != nil {
		f.away(server, err)
	}
}

// away records that a server does not answer.
func (f *facts) away(server string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Away[server] = err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		f.Away[server] = "no answer within " + serverTimeout.String()
	}
}

// readParts reads parts side by side. One that can't be read is missing.
func (f *facts) readParts(ctx context.Context, parts map[string]func(ctx context.Context) error) {
	var all sync.WaitGroup
	for part, read := range parts {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, partTimeout)
			defer cancel()
			if err := read(ctx); err != nil {
				f.lacks(part)
			}
		})
	}
	all.Wait()
}

// lacks records that a part was not read.
func (f *facts) lacks(part string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Unread = append(f.Unread, part)
}

func (f *facts) readWaiting(ctx context.Context) error {
	waiting, whole, at, err := f.c.store.Waiting(ctx, f.c.lateAfterGrace(), behindTimeout)
	if err != nil {
		return err
	}
	if f.waiting = waiting; !whole {
		f.lacks(why.PartBehind)
	}
	if f.unhandled, err = f.c.store.Unhandled(ctx, waiting, at, maxUnhandled); err != nil {
		return err
	}
	f.ahead, err = f.c.store.Ahead(ctx, at, why.AheadSpan)
	return err
}

func (f *facts) readQueues(ctx context.Context) (err error) {
	if f.limits, err = f.c.Queues(ctx); err == nil {
		f.degraded, err = f.c.store.Degraded(ctx, f.Now)
	}
	return err
}

func (f *facts) readProcesses(ctx context.Context) (err error) {
	f.alive, err = f.c.store.ListProcesses(ctx)
	return err
}

func (f *facts) readLeaders(ctx context.Context) error {
	if f.c.index == nil {
		return nil // nobody is elected
	}
	epochs := map[string]int64{}
	for _, name := range LeaderNames() {
		var err error
		if epochs[name], err = f.c.store.Current(ctx, name); err != nil {
			return err
		}
	}
	f.epochs = epochs
	return nil
}

func (f *facts) readRates(ctx context.Context) (err error) {
	if f.ended, err = f.c.views.Ended(ctx, f.Now); err != nil {
		return err
	}
	ahead, err := f.c.views.Ahead(ctx, views.AheadQuery{From: f.Now, Step: comingStep, Steps: comingSteps, By: ByQueue, Overdue: f.Now})
	f.coming = ahead.Steps
	return err
}

func (f *facts) readHandlers(ctx context.Context) (err error) {
	f.Handlers, err = f.c.handlersLately(ctx)
	return err
}

func (f *facts) readDead(ctx context.Context) error {
	dead, err := f.c.views.Dead(ctx, newestDead)
	for _, g := range deadGroups(dead) {
		f.Dead = append(f.Dead, why.Dead{
			Kind: g.Kind, Error: g.Error, Tasks: g.Tasks, First: time.UnixMilli(g.FirstMs), Last: time.UnixMilli(g.LastMs),
		})
	}
	return err
}

func (f *facts) readFired(ctx context.Context) error {
	over, err := f.c.LagOver(ctx, LagQuery{Span: firedSpan, By: ByQueue})
	if err == nil {
		f.fired, f.Fired = over, &why.Fired{Span: firedSpan, Tasks: over.Fired, Late: over.Late}
	}
	return err
}

// join makes the facts of what was read.
func (f *facts) join() {
	handled := map[string][]string{} // kinds by queue
	for _, p := range f.alive {
		f.Processes = append(f.Processes, processFact(p))
		for _, queue := range p.Detail.Queues {
			if !p.Silent {
				handled[queue] = append(handled[queue], p.Detail.Kinds...)
			}
		}
	}
	for _, name := range LeaderNames() {
		epoch, read := f.epochs[name]
		leads := func(p store.Process) bool { return p.Role == name && p.Detail.Epoch == epoch && !p.Silent }
		if read && !slices.Contains(f.Unread, why.PartProcesses) {
			f.Leaders = append(f.Leaders, why.Leader{Name: name, Lead: epoch > 0 && slices.ContainsFunc(f.alive, leads)})
		}
	}
	f.joinWaiting(handled)
	f.joinQueues()
}

// joinWaiting makes the facts of what waits, and of what will.
func (f *facts) joinWaiting(handled map[string][]string) {
	of := func(queue, kind string) *why.Waiting {
		i := slices.IndexFunc(f.Waiting, func(w why.Waiting) bool { return w.Queue == queue && w.Kind == kind })
		if i < 0 {
			kinds := handled[queue]
			i, f.Waiting = len(f.Waiting), append(f.Waiting, why.Waiting{
				Queue: queue, Kind: kind, HasWorker: len(kinds) == 0 || slices.Contains(kinds, kind),
			})
		}
		return &f.Waiting[i]
	}
	for _, w := range f.waiting {
		to := of(w.Queue, w.Kind)
		to.Due, to.Late, to.Oldest = w.Due, w.Late, w.Oldest
	}
	for _, w := range f.ahead {
		if w.Queue == protocol.WitnessQueue { // the daemon runs it, and reports no queues
			continue
		}
		to := of(w.Queue, w.Kind)
		to.Ahead, to.Next = w.Due, w.Oldest
	}
	for _, u := range f.unhandled {
		of(u.Queue, u.Kind).Unhandled = u.Tasks
	}
}

// joinQueues makes the facts of queues: those of the configuration, and all others of which something was read.
func (f *facts) joinQueues() {
	limits := slices.Clone(f.limits)
	for _, w := range f.Waiting {
		if !slices.ContainsFunc(limits, func(l QueueLimit) bool { return l.Queue == w.Queue }) {
			limits = append(limits, QueueLimit{Queue: w.Queue})
		}
	}
	for _, l := range limits {
		q := why.Queue{
			Name: l.Queue, Limited: l.Limited, Limit: limitText(l), Degraded: f.degraded[l.Queue], Ended: f.ended[l.Queue].Rate,
			LastEnd: f.ended[l.Queue].Last, Step: comingStep, Fired: f.fired.Groups[l.Queue].Fired,
		}
		if l.PausedMs != nil {
			q.Paused = time.UnixMilli(*l.PausedMs)
		}
		for _, s := range f.coming {
			q.Coming = append(q.Coming, s.Groups[l.Queue])
		}
		f.Queues = append(f.Queues, q)
	}
}

// limitText is a queue's limit for people: 5/s, 3 at once.
func limitText(l QueueLimit) string {
	text := l.Rate.String()
	if l.Concurrency > 0 {
		if text != "" {
			text += ", "
		}
		text += strconv.Itoa(l.Concurrency) + " at once"
	}
	return text
}

func processFact(p store.Process) why.Process {
	out := why.Process{Role: p.Role, Host: p.Host, PID: p.Detail.PID, Queues: p.Detail.Queues, Silent: p.Silent, Seen: p.Seen}
	for _, c := range p.Detail.Calls {
		out.Calls = append(out.Calls, why.Call{
			Kind: c.Kind, Task: c.Task.String(), Tasks: c.Tasks, Since: time.UnixMilli(c.SinceMs), Limit: time.Duration(c.LimitMs) * time.Millisecond,
		})
	}
	return out
}
