package pipelinetest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
)

// SecureMySQL is the further arguments of a MySQL that offers TLS with a certificate of the authority's. It skips the test on a
// server that can't.
func (a *Authority) SecureMySQL(t testing.TB) []string {
	t.Helper()
	if chosen(t).name == "mysql8" {
		t.Skip("MySQL 8.0.15 knows only key exchanges that Go has given up")
	}
	c := a.Issue(t, "mysql")
	return append(slices.Clone(chosen(t).withTLS), "--ssl-ca="+a.CAFile, "--ssl-cert="+c.CertFile, "--ssl-key="+c.KeyFile)
}

// OwnSecureRedis starts a redis-server for this test alone that speaks TLS and nothing else, with further arguments of
// its command line.
func OwnSecureRedis(t testing.TB, a *Authority, args ...string) *RedisServer {
	t.Helper()
	c := a.Issue(t, "redis")
	r := redisRecipe(nil)
	r.command = func(data string, ports []*portLock) (*exec.Cmd, error) {
		base := []string{
			"--port", "0", "--tls-port", strconv.Itoa(ports[0].port), "--save", "", "--appendonly", "no",
			"--tls-ca-cert-file", a.CAFile, "--tls-cert-file", c.CertFile, "--tls-key-file", c.KeyFile, "--tls-auth-clients", "no",
		}
		return redisCommand(data, append(base, args...))
	}
	r.ready = a.ready
	s, err := startServer("", r)
	Must(t, err)
	Own(t, s)
	return &RedisServer{s}
}

// ready shakes hands, as the authority's client.
func (a *Authority) ready(ctx context.Context, addr string) error {
	cfg, err := a.client()
	if err != nil {
		return err
	}
	conn, err := (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	return conn.Close()
}

// Client is what believes the authority's certificates.
func (a *Authority) Client(t testing.TB) *tls.Config {
	t.Helper()
	cfg, err := a.client()
	Must(t, err)
	return cfg
}

func (a *Authority) client() (*tls.Config, error) {
	pem, err := os.ReadFile(a.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("read the authority: no certificate")
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}
