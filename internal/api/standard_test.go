package api_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/duetime/duetime/internal/api"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// h2 makes a client of HTTP/2 in plain text.
func h2(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// A load balancer has no token.
func TestHealth(t *testing.T) {
	t.Parallel()
	w := newWorld(t, callerOf("reader", api.RoleRead, nil, nil))
	for _, name := range slices.Sorted(maps.Keys(transports)) {
		c := grpchealth.NewClient(h2(t), w.url, transports[name]...)
		for service, want := range map[string]connect.Code{
			"": 0, "duetime.v1.TaskService": 0, "duetime.v1.OperationService": 0, "duetime.v1.NoService": connect.CodeNotFound,
		} {
			got, err := c.Check(t.Context(), &grpchealth.CheckRequest{Service: service})
			if err != nil && connect.CodeOf(err) != want || err == nil && (want != 0 || got.Status != grpchealth.StatusServing) {
				t.Errorf("%s, service %q: %v, %v", name, service, got, err)
			}
		}
	}
	const watch = "/grpc.health.v1.Health/Watch"
	if status, body := w.post(t, watch, "application/connect+json", "", "\x00\x00\x00\x00\x02{}"); !strings.Contains(body, "unimplemented") {
		t.Errorf("a watch without a token: status %d, %q", status, body)
	}
	w.stop()
	got, err := grpchealth.NewClient(h2(t), w.url).Check(t.Context(), &grpchealth.CheckRequest{})
	pipelinetest.Must(t, err)
	if got.Status != grpchealth.StatusNotServing {
		t.Errorf("a server that stops answers %v", got.Status)
	}
}

// Tools learn the services from the server, with a token.
func TestReflection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, callerOf("reader", api.RoleRead, nil, nil))
	header := func(token string) grpcreflect.ClientStreamOption {
		return grpcreflect.WithRequestHeaders(http.Header{"Authorization": {"Bearer " + token}})
	}
	c := grpcreflect.NewClient(h2(t), w.url, connect.WithGRPC())
	stream := c.NewStream(t.Context(), header(tokenOf("reader")))
	services, err := stream.ListServices()
	pipelinetest.Must(t, err)
	slices.Sort(services)
	want := []protoreflect.FullName{
		"duetime.v1.GroupService", "duetime.v1.OperationService", "duetime.v1.OwnerService", "duetime.v1.PauseService", "duetime.v1.QueueService", "duetime.v1.RecurrenceService", "duetime.v1.TaskService",
	}
	if d := cmp.Diff(want, services); d != "" {
		t.Errorf("services (-want +got):\n%s", d)
	}
	files, err := stream.FileContainingSymbol("duetime.v1.TaskService")
	if err != nil || len(files) == 0 {
		t.Errorf("files of a service: %d, %v", len(files), err)
	}
	_, err = stream.Close()
	pipelinetest.Must(t, err)
	stream = c.NewStream(t.Context(), header("wrong"))
	_, err = stream.ListServices()
	wantCode(t, err, connect.CodeUnauthenticated, "")
	_, _ = stream.Close()
}
