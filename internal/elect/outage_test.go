package elect_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/duetime/duetime/internal/elect"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestServerRestartDoesNotInterruptTheLeader(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnZooKeeper(t)
	s := newStage(zooWorld(t, server.Addr()))
	s.stand(t, "a")
	epoch := s.leads(t, "a", 0)
	for range 2 {
		pipelinetest.Must(t, server.Kill())
		s.goesOn(t, "a", 300) // more than half a second of passes without a server
		pipelinetest.Must(t, server.Start())
		s.goesOn(t, "a", 300)
	}
	if got := read(s.index, func() []int64 { return slices.Clone(s.starts) }); !slices.Equal(got, []int64{epoch}) {
		t.Errorf("terms started: got %v, want only %d", got, epoch)
	}
}

// The leader's connection hangs while it goes on working. Its session expires, a successor is elected, and only the
// successor's first write ends the old term. The old leader then queues behind the new one.
func TestExpiredSessionLeadsUntilFenced(t *testing.T) {
	t.Parallel()
	server := pipelinetest.ZooKeeper(t)
	proxy := pipelinetest.Proxy(t, server.Addr())
	s := newStage(zooWorld(t, server.Addr()))
	s.cfg.Servers = []string{proxy.Addr()}
	a := s.stand(t, "a")
	epoch := s.leads(t, "a", 0)
	s.cfg.Servers = []string{server.Addr()}
	s.stand(t, "b")
	s.queued(t, 2)

	begin := time.Now()
	proxy.Cut()
	s.goesOn(t, "a", 100)
	epoch = s.leads(t, "b", epoch)
	if took := time.Since(begin); took > a.elector.SessionTimeout()+3*time.Second {
		t.Errorf("successor after %s, session timeout %s", took, a.elector.SessionTimeout())
	}
	eventually(t, "a is fenced", func() bool { return !s.runs("a") })
	proxy.Heal()
	s.goesOn(t, "b", 300)
	if got := read(s.index, func() int64 { return s.stored }); got != epoch {
		t.Errorf("epoch %d after the network healed, want %d", got, epoch)
	}
}

// Without another candidate the same outage interrupts nothing, although the session and its node are lost.
func TestExpiredSessionAloneKeepsTheTerm(t *testing.T) {
	t.Parallel()
	server := pipelinetest.ZooKeeper(t)
	proxy := pipelinetest.Proxy(t, server.Addr())
	s := newStage(zooWorld(t, server.Addr()))
	s.cfg.Servers = []string{proxy.Addr()}
	s.cfg.SessionTimeout = time.Second
	a := s.stand(t, "a")
	epoch := s.leads(t, "a", 0)
	conn := operator(t, server.Addr())
	old := candidates(t, conn, s.dir)
	proxy.Cut()
	until := time.Now().Add(3 * a.elector.SessionTimeout())
	for time.Now().Before(until) {
		s.goesOn(t, "a", 50)
	}
	proxy.Heal()
	stand(t, conn, s.dir, 1, old...)
	s.goesOn(t, "a", 100)
	if got := read(s.index, func() []int64 { return slices.Clone(s.starts) }); !slices.Equal(got, []int64{epoch}) {
		t.Errorf("terms started: got %v, want only %d", got, epoch)
	}
	s.stand(t, "b")
	s.queued(t, 2)
	a.cancel() // b waits behind a's new place
	s.leads(t, "b", epoch)
}

// After ZooKeeper has lost its data, the election works and the epoch still grows, because the counter is elsewhere. The
// empty server refuses the old clients, which have seen later transactions.
func TestWipedZooKeeper(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnZooKeeper(t)
	s := newStage(zooWorld(t, server.Addr()))
	before := operator(t, server.Addr())
	for range 300 {
		_, err := before.Set("/", nil, -1)
		pipelinetest.Must(t, err)
	}
	players := map[string]*player{"a": s.stand(t, "a"), "b": s.stand(t, "b")}
	stand(t, before, s.dir, 2)
	who, epoch := s.leader(t, 0)
	before.Close()
	pipelinetest.Must(t, server.Wipe())
	s.goesOn(t, who, 100)
	stand(t, operator(t, server.Addr()), s.dir, 2)
	for range 2 {
		who, epoch = s.leader(t, epoch-1)
		players[who].cancel()
		<-players[who].left
		if delete(players, who); len(players) > 0 {
			s.leader(t, epoch)
		}
	}
}

// stand waits until dir has n candidates, none of them with a node in old.
func stand(t *testing.T, conn *zk.Conn, dir string, n int, old ...string) {
	t.Helper()
	eventually(t, "candidates stand", func() bool {
		queue, _, err := conn.Children(dir)
		return err == nil && len(queue) == n && !slices.ContainsFunc(queue, func(child string) bool {
			return slices.Contains(old, child)
		})
	})
}

func TestServersAwayAtStart(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnZooKeeper(t)
	pipelinetest.Must(t, server.Kill())
	s := newStage(zooWorld(t, server.Addr()))
	a, b := s.stand(t, "a"), s.stand(t, "b")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := a.elector.Ready(ctx); err == nil {
		t.Error("ready without a server")
	}
	closesSoon(t, b)
	pipelinetest.Must(t, server.Start())
	s.leads(t, "a", 0)
	if err := a.elector.Ready(t.Context()); err != nil {
		t.Errorf("Ready: %v", err)
	}
	if got, want := a.elector.SessionTimeout(), s.cfg.SessionTimeout; got != want {
		t.Errorf("negotiated session timeout: got %s, want %s", got, want)
	}
}

func closesSoon(t *testing.T, p *player) {
	t.Helper()
	begin := time.Now()
	if err := p.elector.Close(); err != nil {
		t.Errorf("Close of %s: %v", p.who, err)
	}
	took := time.Since(begin)
	t.Logf("Close of %s took %s", p.who, took)
	if took > 4*time.Second {
		t.Errorf("Close of %s took %s", p.who, took)
	}
}

func TestCloseWithServersAway(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*pipelinetest.ToxicProxy){
		"refusing": (*pipelinetest.ToxicProxy).Refuse,
		"silent":   (*pipelinetest.ToxicProxy).Cut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pipelinetest.ZooKeeper(t)
			proxy := pipelinetest.Proxy(t, server.Addr())
			s := newStage(zooWorld(t, server.Addr()))
			s.cfg.Servers = []string{proxy.Addr()}
			s.cfg.SessionTimeout = 5 * time.Second // the client alone would notice silence after two thirds of it
			a := s.stand(t, "a")
			epoch := s.leads(t, "a", 0)
			b := s.stand(t, "b")
			s.queued(t, 2)
			fault(proxy)
			closesSoon(t, a)
			closesSoon(t, b)
			proxy.Heal()
			s.stand(t, "c") // an old node blocks the queue for at most a session
			s.leads(t, "c", epoch)
		})
	}
}

// A Lead that ends while ZooKeeper is away must not leave its place in a session that lives on.
func TestPlaceOfAnEndedLeadVanishes(t *testing.T) {
	t.Parallel()
	server := pipelinetest.ZooKeeper(t)
	proxy := pipelinetest.Proxy(t, server.Addr())
	s := newStage(zooWorld(t, server.Addr()))
	s.cfg.Servers = []string{proxy.Addr()}
	a := s.stand(t, "a")
	epoch := s.leads(t, "a", 0)
	proxy.Refuse()
	a.cancel()
	<-a.left
	proxy.Heal()
	s.stand(t, "b")
	s.leads(t, "b", epoch)
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]elect.Config{
		"no servers":       {},
		"relative root":    {Servers: []string{"127.0.0.1:1"}, Root: "duetime"},
		"root's slash":     {Servers: []string{"127.0.0.1:1"}, Root: "/duetime/"},
		"negative timeout": {Servers: []string{"127.0.0.1:1"}, SessionTimeout: -1},
		"retry bounds":     {Servers: []string{"127.0.0.1:1"}, RetryMin: time.Second, RetryMax: time.Millisecond},
		"a bad address":    {Servers: []string{"127.0.0.1:1:2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if z, err := elect.NewZooKeeper(cfg, newCounter()); err == nil {
				_ = z.Close()
				t.Errorf("%+v was accepted", cfg)
			}
		})
	}
}
