package index_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/trust"
	"github.com/duetime/duetime/pkg/task"
)

// TestTLS connects, as an ACL user, to servers that speak only TLS. One server wants a client certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := pipelinetest.NewAuthority(t), pipelinetest.NewAuthority(t)
	own, stranger := ours.Issue(t, "client"), theirs.Issue(t, "client")
	user := strings.Fields("--user default off --user player on >right ~* &* +@all")
	server := pipelinetest.OwnSecureRedis(t, ours, user...).Addr()
	strict := pipelinetest.OwnSecureRedis(t, ours, append(user, "--tls-auth-clients", "yes")...).Addr()
	trusting := trust.Files{CAFile: ours.CAFile}
	certified := func(c pipelinetest.Certificate) trust.Files {
		return trust.Files{CAFile: ours.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile}
	}
	for name, c := range map[string]struct {
		addr     string
		files    trust.Files
		password string
		want     string // how the refusal begins; empty: it works
	}{
		"over TLS":                   {server, trusting, "right", ""},
		"with a certificate":         {strict, certified(own), "right", ""},
		"without the certificate":    {strict, trusting, "right", "redis.tls.ca_file: "},
		"another's certificate":      {strict, certified(stranger), "right", "redis.tls.ca_file: "},
		"wrong password":             {server, trusting, "wrong", "redis.username or redis.password: "},
		"another authority":          {server, trust.Files{CAFile: theirs.CAFile}, "right", "redis.tls.ca_file: "},
		"this machine's authorities": {server, trust.Files{CAFile: trust.System}, "right", "redis.tls.ca_file: "},
		"another name":               {strings.Replace(server, "127.0.0.1", "localhost", 1), trusting, "right", "redis.tls.ca_file: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := trust.Client("redis.tls", c.files)
			pipelinetest.Must(t, err)
			x := open(t, index.Config{Addrs: []string{c.addr}, Username: "player", Password: c.password, TLS: cfg})
			if c.want == "" {
				pipelinetest.Must(t, x.Put(t.Context(), []task.Task{pending("ann", 0, 1)}))
				counts, err := x.Counts(t.Context(), 1)
				pipelinetest.Must(t, err)
				diff(t, "entries", counts[0], int64(1))
				return
			}
			// A server that refuses our certificate hangs up, and its alert may get lost.
			pipelinetest.Await(t, "a refusal", func() bool { err = x.Ping(t.Context()); return index.IsRefused(err) })
			if refusal := index.Refusal(err); !strings.HasPrefix(refusal.Error(), c.want) || index.Away(err) {
				t.Errorf("got %v, of which %v, want %s", err, refusal, c.want)
			}
		})
	}
}

// TestWithoutTLS checks that a server that speaks only TLS answers nothing to a client without TLS.
func TestWithoutTLS(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnSecureRedis(t, pipelinetest.NewAuthority(t))
	x := open(t, index.Config{Addrs: []string{server.Addr()}, ReadTimeout: time.Second})
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := x.Ping(ctx); err == nil {
		t.Error("a client without TLS got an answer")
	}
}
