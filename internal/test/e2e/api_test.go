package e2e_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rpc "connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
	"github.com/duetime/duetime/pkg/duetimev1/duetimev1connect"
)

const apiTokens = "- {name: shop, role: schedule, token: shop-0123456789abcdef, owners: ['customer-*']}\n"

// The process api serves gRPC by TLS to callers with tokens, and ends their streams when it stops.
func TestAPIByTLS(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	p := pipelinetest.SharedDeployment(t)
	authority := pipelinetest.NewAuthority(t)
	certificate := authority.Issue(t, "api")
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	pipelinetest.Must(t, os.WriteFile(tokens, []byte(apiTokens), 0o600))
	proc := p.Ready(t, "api", "DUETIME_API__TOKENS_FILE="+tokens, "DUETIME_API__TLS__CERT_FILE="+certificate.CertFile,
		"DUETIME_API__TLS__KEY_FILE="+certificate.KeyFile, "DUETIME_API__LISTEN=0.0.0.0:0")
	url := strings.Replace(strings.Replace(proc.URL(t, "api"), "http://", "https://", 1), "[::]", "127.0.0.1", 1)

	pem, err := os.ReadFile(authority.CAFile)
	pipelinetest.Must(t, err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	client := duetimev1connect.NewTaskServiceClient(&http.Client{Transport: transport}, url, rpc.WithGRPC())

	wanted := &v1.ScheduleRequest{Task: &v1.NewTask{
		Kind: "order.expire", Owner: "customer-7", Due: &v1.NewTask_DueIn{DueIn: durationpb.New(time.Hour)},
	}}
	_, err = client.Schedule(t.Context(), wanted)
	if rpc.CodeOf(err) != rpc.CodeUnauthenticated {
		t.Errorf("without a token: %v", err)
	}
	ctx, info := rpc.NewClientContext(t.Context())
	info.RequestHeader().Set("Authorization", "Bearer shop-0123456789abcdef")
	made, err := client.Schedule(ctx, wanted)
	pipelinetest.Must(t, err)
	if n := proc.Metric(t, `duetime_api_requests_total{code="ok",method="Schedule"}`); n != 1 {
		t.Errorf("%v calls were counted", n)
	}

	ctx, info = rpc.NewClientContext(t.Context())
	info.RequestHeader().Set("Authorization", "Bearer shop-0123456789abcdef")
	stream, err := client.Watch(ctx, &v1.WatchRequest{TaskId: made.GetTask().GetTaskId()})
	pipelinetest.Must(t, err)
	if !stream.Receive() {
		t.Errorf("the stream ended: %v", stream.Err())
	}
	proc.Stop(t)
	if stream.Receive() || rpc.CodeOf(stream.Err()) != rpc.CodeUnavailable {
		t.Errorf("after the stop: %v", stream.Err())
	}
}

// An API that others reach is not started without tokens and TLS, and one with a file that can't be meant isn't either.
func TestAPIIsRefused(t *testing.T) {
	t.Parallel()
	p := pipelinetest.Deployment{Namespace: "t", DSN: "root@tcp(127.0.0.1:1)/t", Redis: "127.0.0.1:1", ZooKeeper: "127.0.0.1:1", Kafka: "127.0.0.1:1"}
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	pipelinetest.Must(t, os.WriteFile(tokens, []byte("- {name: shop, role: schedule, token: hunter2}\n"), 0o600))
	for says, settings := range map[string][]string{
		"api.tokens: is needed":        {"DUETIME_API__LISTEN=0.0.0.0:0"},
		"api.tls.cert_file: is needed": {"DUETIME_API__LISTEN=0.0.0.0:0", "DUETIME_API__TOKENS_FILE=" + tokens},
		"api.tokens: shop: the":        {"DUETIME_API__TOKENS_FILE=" + tokens},
		"api.tokens_file: open":        {"DUETIME_API__TOKENS_FILE=none"},
		"api.tls.cert_file: open":      {"DUETIME_API__TLS__CERT_FILE=none", "DUETIME_API__TLS__KEY_FILE=none"},
	} {
		proc := p.Start(t, "api", settings...)
		if code := proc.Wait(t, time.Minute); code != 1 {
			t.Errorf("%v: exit code %d", settings, code)
		}
		lines := strings.Join(proc.Lines(), "\n")
		if !strings.Contains(lines, says) || strings.Contains(lines, "hunter2") {
			t.Errorf("%v: said %s, want %q", settings, lines, says)
		}
	}
}
