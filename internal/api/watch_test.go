package api_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/duetime/duetime/internal/api"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
	"github.com/duetime/duetime/pkg/duetimev1/duetimev1connect"
)

// A stream without changes has heartbeats, messages without a task, which a proxy sees and a client can skip. A change comes between them.
func TestWatchHasHeartbeats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.handler.(*api.API).BeatEvery(10 * time.Millisecond)
	for name, options := range transports {
		c := w.dial(t, "", options...)
		id := c.make(t, newTask("ann")).GetTaskId()
		stream, err := c.Watch(t.Context(), &v1.WatchRequest{TaskId: id, Version: 1})
		pipelinetest.Must(t, err)
		for range 3 {
			if !stream.Receive() || stream.Msg().GetTask() != nil {
				t.Fatalf("%s: want a heartbeat, got %v, %v", name, stream.Msg(), stream.Err())
			}
		}
		_, err = c.Cancel(t.Context(), &v1.CancelRequest{TaskId: id})
		pipelinetest.Must(t, err)
		for stream.Receive() && stream.Msg().GetTask() == nil {
		}
		if stream.Msg().GetTask().GetState() != v1.State_STATE_CANCELLED || stream.Receive() || stream.Err() != nil {
			t.Errorf("%s: want the cancel and the end, got %v, %v", name, stream.Msg(), stream.Err())
		}
		pipelinetest.Must(t, stream.Close())
	}
}

// The server's limit on requests ends every connection whose caller may not watch, or sends no message; streams outlast it.
func TestReadLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, callerOf("reader", api.RoleRead, nil, nil), callerOf("shop", api.RoleSchedule, nil, nil))
	shop := w.dial(t, tokenOf("shop"))
	id := shop.make(t, newTask("ann")).GetTaskId()
	server := httptest.NewUnstartedServer(w.handler)
	server.Config.ReadTimeout = time.Second
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)

	token := tokenOf("reader")
	streams := map[string]*connect.ServerStreamForClient[v1.WatchResponse]{}
	for name, client := range map[string]*http.Client{"HTTP/1": server.Client(), "HTTP/2": overHTTP2(t)} {
		reader := duetimev1connect.NewTaskServiceClient(client, server.URL, connect.WithInterceptors(bearer(token)))
		stream, err := reader.Watch(t.Context(), &v1.WatchRequest{TaskId: id})
		pipelinetest.Must(t, err)
		defer func() { _ = stream.Close() }()
		if !stream.Receive() {
			t.Fatalf("%s: the stream ended: %v", name, stream.Err())
		}
		streams[name] = stream
	}
	for name, header := range map[string]string{"no token": "", "no message": "Authorization: Bearer " + token + "\r\n"} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, conn.SetDeadline(time.Now().Add(minute)))
		_, err = fmt.Fprintf(conn, "POST /duetime.v1.TaskService/Watch HTTP/1.1\r\nHost: 127.0.0.1\r\n"+
			"Content-Type: application/connect+json\r\nContent-Length: 100\r\n%s\r\n{", header)
		pipelinetest.Must(t, err)
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection is held", name)
		}
		_ = conn.Close()
	}
	_, err := shop.Cancel(t.Context(), &v1.CancelRequest{TaskId: id}) // by now the limit of the streams' requests is over
	pipelinetest.Must(t, err)
	for name, stream := range streams {
		if !stream.Receive() || stream.Msg().GetTask().GetState() != v1.State_STATE_CANCELLED {
			t.Errorf("%s: the stream ended: %v, %v", name, stream.Msg(), stream.Err())
		}
	}
}
