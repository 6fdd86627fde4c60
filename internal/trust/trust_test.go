package trust_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/trust"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

// serve answers each connection with one byte, over TLS or without it, and returns its address.
func serve(t *testing.T, cfg *tls.Config) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	pipelinetest.Must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if cfg != nil {
				conn = tls.Server(conn, cfg)
			}
			_, _ = conn.Write([]byte("+PONG\r\n"))
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return listener.Addr().String()
}

// call reads one byte as the client.
func call(t *testing.T, addr string, f trust.Files) error {
	t.Helper()
	cfg, err := trust.Client("redis.tls", f)
	pipelinetest.Must(t, err)
	conn, err := tls.Dial("tcp", addr, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = conn.Read(make([]byte, 1))
	return err
}

func server(t *testing.T, c pipelinetest.Certificate) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	pipelinetest.Must(t, err)
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

func TestClientBelievesItsAuthorityAlone(t *testing.T) {
	t.Parallel()
	ours, theirs := pipelinetest.NewAuthority(t), pipelinetest.NewAuthority(t)
	good := serve(t, server(t, ours.Issue(t, "server")))
	elsewhere := serve(t, server(t, ours.Issue(t, "elsewhere", "example.org")))
	plain := serve(t, nil)
	if err := call(t, good, trust.Files{CAFile: ours.CAFile}); err != nil {
		t.Errorf("a server of the authority: %v", err)
	}
	for what, err := range map[string]error{
		"another authority's server": call(t, good, trust.Files{CAFile: theirs.CAFile}),
		"the machine's authorities":  call(t, good, trust.Files{CAFile: trust.System}),
		"a server of another name":   call(t, elsewhere, trust.Files{CAFile: ours.CAFile}),
		"a server without TLS":       call(t, plain, trust.Files{CAFile: ours.CAFile}),
	} {
		if err == nil || !trust.Refused(err) {
			t.Errorf("%s: %v, want a refusal", what, err)
		}
	}
	if err := call(t, "127.0.0.1:1", trust.Files{CAFile: ours.CAFile}); err == nil || trust.Refused(err) {
		t.Errorf("a server that is away: %v, want no refusal", err)
	}
}

// TestClientShowsItsCertificate wants a certificate to be sent if the server asks for one, as its file has it at that
// moment.
func TestClientShowsItsCertificate(t *testing.T) {
	t.Parallel()
	ours, theirs := pipelinetest.NewAuthority(t), pipelinetest.NewAuthority(t)
	asking := server(t, ours.Issue(t, "server"))
	asking.ClientAuth, asking.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	pem, err := os.ReadFile(ours.CAFile)
	pipelinetest.Must(t, err)
	asking.ClientCAs.AppendCertsFromPEM(pem)
	addr := serve(t, asking)

	own, stranger := ours.Issue(t, "client"), theirs.Issue(t, "client")
	files := func(c pipelinetest.Certificate) trust.Files {
		return trust.Files{CAFile: ours.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile}
	}
	if err := call(t, addr, files(own)); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
	for what, f := range map[string]trust.Files{"without one": {CAFile: ours.CAFile}, "with another authority's": files(stranger)} {
		if err := call(t, addr, f); err == nil || !trust.Refused(err) {
			t.Errorf("%s: %v, want a refusal", what, err)
		}
	}
	cfg, err := trust.Client("redis.tls", files(own))
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, errors.Join(os.Rename(stranger.CertFile, own.CertFile), os.Rename(stranger.KeyFile, own.KeyFile)))
	renewed, err := cfg.GetClientCertificate(nil)
	pipelinetest.Must(t, err)
	if theirs.Signed(t, renewed.Certificate[0]) != nil {
		t.Error("the certificate is not the one that its file holds by now")
	}
}

func TestFilesThatCannotBe(t *testing.T) {
	t.Parallel()
	ours := pipelinetest.NewAuthority(t)
	c := ours.Issue(t, "client")
	for want, f := range map[string]trust.Files{
		"redis.tls.ca_file: open":                 {CAFile: ours.CAFile + ".absent"},
		"redis.tls.ca_file: " + c.KeyFile + " ho": {CAFile: c.KeyFile},
		"redis.tls.cert_file: open":               {ours.CAFile, c.CertFile + ".absent", c.KeyFile},
		"redis.tls.cert_file: tls:":               {ours.CAFile, c.CertFile, ours.CAFile},
	} {
		if _, err := trust.Client("redis.tls", f); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if cfg, err := trust.Client("redis.tls", trust.Files{}); cfg != nil || err != nil {
		t.Errorf("no files: %v, %v", cfg, err)
	}
}
