package store_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/migrations"
)

// rewriting is a proxy before a MySQL server that changes what clients send, into a text of the same length.
func rewriting(t *testing.T, upstream, from, to string) (addr string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	to += strings.Repeat(" ", len(from)-len(to))
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = client.Close() }()
				server, err := new(net.Dialer).DialContext(t.Context(), "tcp", upstream)
				if err != nil {
					return
				}
				defer func() { _ = server.Close() }()
				go func() {
					_, _ = io.Copy(client, server)
					_ = client.Close()
				}()
				part := make([]byte, 64<<10)
				for {
					n, err := client.Read(part)
					if err != nil {
						return
					}
					if _, err := server.Write(bytes.ReplaceAll(part[:n], []byte(from), []byte(to))); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// A proxy may take SKIP LOCKED away, and other servers' locks may be none: both are refused before a task is lost or doubled.
func TestLocksThatAreNotMySQLs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ from, to, want string }{
		"a rewritten clause": {"SKIP LOCKED", "", "P5"},
		"no lock at all":     {"FOR UPDATE SKIP LOCKED", "", "P2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pipelinetest.MySQL(t)
			dsn := server.NewSchema(t)
			s := opened(t, strings.Replace(dsn, server.Addr(), rewriting(t, server.Addr(), c.from, c.to), 1), store.Options{})
			must(t, s.CheckLocks(t.Context())) // there is no row yet
			err := s.Migrate(t.Context(), migrations.Files, "test", shards)
			if _, is := errors.AsType[*store.SettingError](err); !is || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want SKIP LOCKED refused because of %s", err, c.want)
			}
			honest := opened(t, dsn, store.Options{})
			must(t, honest.Migrate(t.Context(), migrations.Files, "test", shards))
		})
	}
}

func TestProductsThatAreNotMySQL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ version, comment, name string }{
		{"8.0.11-TiDB-v8.5.1", "TiDB Server (Apache License 2.0) Community Edition, MySQL 8.0 compatible", "TiDB"},
		{"5.7.25-OceanBase-v4.3.5.0", "OceanBase 4.3.5.0", "OceanBase"},
		{"5.7.32", "SingleStoreDB source distribution (compatible; MySQL Enterprise & MySQL Commercial)", "SingleStore"},
		{"8.0.32-X-Cluster-8.4.19", "PolarDB-X", "PolarDB-X"},
		{"5.6.29-TDDL-5.4.12", "", "PolarDB-X"},
	} {
		err := store.CheckProduct(t.Context(), c.version, c.comment)
		if err == nil || !strings.Contains(err.Error(), c.name) || !strings.Contains(err.Error(), "P2") {
			t.Errorf("%s: %v, want it refused by name, because of P2", c.name, err)
		}
	}
	for _, c := range []struct{ version, comment, want string }{
		{"8.0.15", "MySQL Community Server - GPL", "MySQL 8.0.15"},
		{"10.11.14-MariaDB-0+deb12u2", "Debian 12", "MariaDB 10.11.14"},
		{"8.0.36-28.1", "Percona XtraDB Cluster (GPL)", "MySQL 8.0.36"},
		{"8.4.6-Vitess", "Version: 24.0.4 (Git revision 0 branch '') built on  by @ using go1.26.8 linux/amd64", "Vitess 24.0.4"},
	} {
		if got := store.ProductOf(c.version, c.comment); got != c.want {
			t.Errorf("%s: %s, want %s", c.version, got, c.want)
		}
	}
}

// A sharded keyspace is refused by its name, even if the DSN names a kind of tablet. An unsharded one is not.
func TestShardedKeyspace(t *testing.T) {
	t.Parallel()
	for _, sharded := range []string{"true", "false"} {
		for _, target := range []string{"", "@primary", ":0@primary"} {
			t.Run(sharded+target, func(t *testing.T) {
				t.Parallel()
				dsn, keyspace := vtgate(t, sharded, target)
				want := store.SettingError{Name: "autocommit", Value: "ON"} // the next thing to be refused: a vtgate shows 1
				if sharded == "true" {
					want = store.SettingError{Name: "keyspace " + keyspace, Value: "sharded"}
				}
				err := opened(t, dsn, store.Options{}).CheckSession(t.Context())
				got, is := errors.AsType[*store.SettingError](err)
				if !is || got.Name != want.Name || got.Value != want.Value || strings.Contains(got.Want, "promise P2") != (sharded == "true") {
					t.Errorf("%v, want %s refused", err, want.Name)
				}
			})
		}
	}
}

// vtgate returns a DSN of a server that answers as a vtgate, and the keyspace that the DSN names with this target.
func vtgate(t *testing.T, sharded, target string) (dsn, keyspace string) {
	t.Helper()
	server := pipelinetest.MySQL(t)
	own := server.NewSchema(t)
	db := opened(t, own, store.Options{}).DB()
	must(t, db.Get(&keyspace, "SELECT DATABASE()"))
	schema := "`" + keyspace + target + "`"
	must(t, exec(db, "CREATE DATABASE IF NOT EXISTS "+schema))
	t.Cleanup(func() { must(t, exec(db, "DROP DATABASE "+schema)) })
	must(t, exec(db, "CREATE TABLE "+schema+".k AS SELECT ? AS name, ? AS sharded, 'unmanaged' AS fks, '' AS comment", keyspace, sharded))
	addr := rewriting(t, server.Addr(), "SELECT @@version, @@version_comment LIMIT 1", "SELECT '8.4.6-Vitess', 'Version: 24.0.4'")
	return strings.Replace(own, server.Addr(), rewriting(t, addr, "SHOW VSCHEMA KEYSPACES", "SELECT * FROM k"), 1) + target, keyspace
}

// A DSN may name a kind of tablet of Vitess. The tests of internal/test/vitess run this one on a vtgate.
func TestKeyspaceTarget(t *testing.T) {
	t.Parallel()
	dsn := pipelinetest.MySQL(t).NewSchema(t)
	product := value[string](t)(opened(t, dsn, store.Options{}).Product(t.Context()))
	if !strings.HasPrefix(product, "Vitess") {
		t.Skipf("%s has no targets", product)
	}
	s := opened(t, dsn+"@primary", store.Options{})
	migrated(t, migrated(t, s)) // the second time finds what the first has made
	must(t, s.CheckSession(t.Context()))
	_, err := s.Now(t.Context(), nil)
	must(t, err)
}
