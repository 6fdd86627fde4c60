package elect_test

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/duetime/duetime/internal/elect"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/trust"
)

const limit = time.Minute

// vault is a ZooKeeper with TLS, and the authority of its certificate.
type vault struct {
	*pipelinetest.ZooKeeperServer

	authority *pipelinetest.Authority
	own       pipelinetest.Certificate
}

func newVault(t *testing.T) *vault {
	t.Helper()
	a := pipelinetest.NewAuthority(t)
	return &vault{pipelinetest.OwnSecureZooKeeper(t, a), a, a.Issue(t, "client")}
}

// config returns the configuration of an elector that the vault accepts.
func (v *vault) config(t *testing.T) elect.Config {
	t.Helper()
	return elect.Config{
		Servers: []string{v.SecureAddr()}, TLS: clientOf(t, trust.Files{CAFile: v.authority.CAFile, CertFile: v.own.CertFile, KeyFile: v.own.KeyFile}),
		Username: "duetime", Password: "right", Root: "/" + pipelinetest.Namespace(t), SessionTimeout: 4 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
	}
}

func clientOf(t *testing.T, f trust.Files) *tls.Config {
	t.Helper()
	cfg, err := trust.Client("zookeeper.tls", f)
	pipelinetest.Must(t, err)
	return cfg
}

// world is a queue of its own that only one user may write.
func (v *vault) world(t *testing.T) world {
	t.Helper()
	cfg := v.config(t)
	w := zooWorld(t, v.Addr())
	conn := v.operator(t, cfg)
	root := strings.TrimSuffix(w.dir, "/"+office)
	w.count = func(t *testing.T) int {
		t.Helper()
		queue, _, err := conn.Children(w.dir)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			t.Fatalf("list the candidates: %v", err)
		}
		return len(queue)
	}
	w.depose = func(t *testing.T) {
		t.Helper()
		queue := candidates(t, conn, w.dir)
		if len(queue) == 0 {
			t.Fatal("nobody to depose")
		}
		pipelinetest.Must(t, conn.Delete(w.dir+"/"+queue[0], -1))
	}
	open := w.open
	w.open = func(t *testing.T, with elect.Config, epochs elect.Epochs) *elect.ZooKeeper {
		t.Helper()
		with.Servers, with.TLS, with.Username, with.Password, with.Root = cfg.Servers, cfg.TLS, cfg.Username, cfg.Password, root
		return open(t, with, epochs)
	}
	return w
}

// operator is a connection of the test, with the elector's username.
func (v *vault) operator(t *testing.T, cfg elect.Config) *zk.Conn {
	t.Helper()
	conn := operator(t, v.Addr())
	pipelinetest.Must(t, conn.AddAuth("digest", []byte(cfg.Username+":"+cfg.Password)))
	return conn
}

// TestNodesBelongToUsAlone looks at every node that an election made, also without credentials.
func TestNodesBelongToUsAlone(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	cfg := v.config(t)
	conn, stranger := v.operator(t, cfg), operator(t, v.Addr())
	e, err := elect.NewZooKeeper(cfg, newCounter())
	pipelinetest.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	led := make(chan error, 1)
	leading, stop := context.WithCancel(ctx)
	go func() {
		led <- e.Lead(ctx, office, func(ctx context.Context, _ *elect.Term) error { stop(); <-ctx.Done(); return nil })
	}()
	<-leading.Done()
	dir := cfg.Root + "/" + office
	paths := []string{cfg.Root, dir, dir + "/" + candidates(t, conn, dir)[0]}
	for _, path := range paths {
		list, _, err := conn.GetACL(path)
		pipelinetest.Must(t, err)
		if len(list) != 1 || list[0].Scheme != "digest" || !strings.HasPrefix(list[0].ID, "duetime:") {
			t.Errorf("%s belongs to %v, want it to be ours alone", path, list)
		}
		if err := stranger.Delete(path, -1); !errors.Is(err, zk.ErrNoAuth) && !errors.Is(err, zk.ErrNotEmpty) {
			t.Errorf("a stranger deletes %s: %v", path, err)
		}
		if _, err := stranger.Set(path, nil, -1); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("a stranger writes %s: %v", path, err)
		}
	}
	cancel()
	pipelinetest.Must(t, <-led)
	pipelinetest.Must(t, e.Close())
}

// TestRefusals leads where waiting can't help.
func TestRefusals(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	stranger := pipelinetest.NewAuthority(t)
	others := stranger.Issue(t, "client")
	open := operator(t, v.Addr())
	for name, c := range map[string]struct {
		change func(t *testing.T, cfg *elect.Config)
		want   string
	}{
		"another authority": {func(t *testing.T, cfg *elect.Config) {
			cfg.TLS = clientOf(t, trust.Files{CAFile: stranger.CAFile, CertFile: v.own.CertFile, KeyFile: v.own.KeyFile})
		}, "zookeeper.tls.ca_file: "},
		"another name": {func(_ *testing.T, cfg *elect.Config) {
			cfg.Servers = []string{strings.Replace(v.SecureAddr(), "127.0.0.1", "localhost", 1)}
		}, "zookeeper.tls.ca_file: "},
		"no certificate": {func(t *testing.T, cfg *elect.Config) {
			cfg.TLS = clientOf(t, trust.Files{CAFile: v.authority.CAFile})
		}, "zookeeper.tls.ca_file: "},
		"another's certificate": {func(t *testing.T, cfg *elect.Config) {
			cfg.TLS = clientOf(t, trust.Files{CAFile: v.authority.CAFile, CertFile: others.CertFile, KeyFile: others.KeyFile})
		}, "zookeeper.tls.ca_file: "},
		"wrong password": {func(t *testing.T, cfg *elect.Config) {
			_, err := open.Create(cfg.Root, nil, 0, zk.DigestACL(zk.PermAll, cfg.Username, cfg.Password))
			pipelinetest.Must(t, err)
			cfg.Password = "wrong"
		}, "zookeeper.username or zookeeper.password: "},
		"no name": {func(t *testing.T, cfg *elect.Config) {
			_, err := open.Create(cfg.Root, nil, 0, zk.DigestACL(zk.PermAll, cfg.Username, cfg.Password))
			pipelinetest.Must(t, err)
			cfg.Username, cfg.Password = "", ""
		}, "zookeeper.username or zookeeper.password: "},
		"a root that anybody may write": {func(t *testing.T, cfg *elect.Config) {
			_, err := open.Create(cfg.Root, nil, 0, zk.WorldACL(zk.PermAll))
			pipelinetest.Must(t, err)
		}, "zookeeper.username: anybody may write node /"},
		"a queue that anybody may delete from": {func(t *testing.T, cfg *elect.Config) {
			acl := append(zk.DigestACL(zk.PermAll, cfg.Username, cfg.Password), zk.WorldACL(zk.PermDelete)...)
			mine := v.operator(t, *cfg)
			_, err := mine.Create(cfg.Root, nil, 0, zk.DigestACL(zk.PermAll, cfg.Username, cfg.Password))
			pipelinetest.Must(t, err)
			_, err = mine.Create(cfg.Root+"/"+office, nil, 0, acl)
			pipelinetest.Must(t, err)
		}, "zookeeper.username: anybody may write node /"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := v.config(t)
			c.change(t, &cfg)
			if err := refusedBy(t, cfg); err == nil || !strings.HasPrefix(err.Error(), c.want) || !permanent(err) {
				t.Errorf("got %v, want a permanent error: %s", err, c.want)
			}
		})
	}
}

// refusedBy leads once and returns the refusal.
func refusedBy(t *testing.T, cfg elect.Config) error {
	t.Helper()
	e, err := elect.NewZooKeeper(cfg, newCounter())
	pipelinetest.Must(t, err)
	defer func() { pipelinetest.Must(t, e.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := e.Ready(ctx); err != nil {
		return err
	}
	return e.Lead(ctx, office, func(context.Context, *elect.Term) error {
		t.Error("leads")
		cancel()
		return nil
	})
}

func permanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

// TestNodesThatAnybodyMayRead checks that nodes that everybody may only read are accepted.
func TestNodesThatAnybodyMayRead(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	cfg := v.config(t)
	acl := append(zk.DigestACL(zk.PermAll, cfg.Username, cfg.Password), zk.WorldACL(zk.PermRead)...)
	_, err := operator(t, v.Addr()).Create(cfg.Root, nil, 0, acl)
	pipelinetest.Must(t, err)
	e, err := elect.NewZooKeeper(cfg, newCounter())
	pipelinetest.Must(t, err)
	defer func() { pipelinetest.Must(t, e.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	led := false
	pipelinetest.Must(t, e.Lead(ctx, office, func(context.Context, *elect.Term) error { led = true; cancel(); return nil }))
	if !led {
		t.Error("never led")
	}
}

// TestRefusalEndsNoTerm changes the nodes' access list under a leader that has lost its place. It leads on, and queues
// once the nodes are its own.
func TestRefusalEndsNoTerm(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	w := v.world(t)
	conn := v.operator(t, v.config(t))
	s := newStage(w)
	s.stand(t, "a")
	epoch := s.leads(t, "a", 0)
	root := strings.TrimSuffix(w.dir, "/"+office)
	_, err := conn.SetACL(root, zk.WorldACL(zk.PermAll), -1)
	pipelinetest.Must(t, err)
	s.depose(t)
	s.goesOn(t, "a", 200)
	_, err = conn.SetACL(root, zk.DigestACL(zk.PermAll, "duetime", "right"), -1)
	pipelinetest.Must(t, err)
	s.queued(t, 1)
	s.goesOn(t, "a", 50)
	if got := read(s.index, func() int64 { return s.stored }); got != epoch {
		t.Errorf("epoch %d, want %d still", got, epoch)
	}
}
