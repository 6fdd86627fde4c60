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
		if err := store.CheckProduct(t.Context(), c.version, c.comment); err == nil || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s: %v, want it refused by name", c.name, err)
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
