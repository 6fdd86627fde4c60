package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/duetime/duetime/internal/api"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/console"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
	"github.com/duetime/duetime/pkg/duetimev1/duetimev1connect"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

const callersPerCPU = 32 // 64 on two cores

// serviceHeap stands for what a process has in memory. In the few MB of a test the collector would run all the time.
var serviceHeap []byte

// BenchmarkSchedule64 schedules by 64 callers on two cores, one task a call: by the library, and by the API in each of its forms.
// The callers run in the same process, so a figure of the API has their work in it.
func BenchmarkSchedule64(b *testing.B) {
	serviceHeap = make([]byte, 64<<20)
	percent := debug.SetGCPercent(200) // as in our processes
	b.Cleanup(func() { serviceHeap = nil; debug.SetGCPercent(percent) })
	st := worldtest.NewStore(b, "bench", store.Options{})
	client, err := schedule.New(schedule.Config{Logger: slog.New(slog.DiscardHandler)}, st, worldtest.Nowhere{}, worldtest.Nowhere{})
	pipelinetest.Must(b, err)
	b.Cleanup(func() { client.Close(context.Background()) })
	served, err := api.New(api.Config{Logger: slog.New(slog.DiscardHandler)}, client,
		console.New(console.Config{Queues: []string{"default"}}, st.Store, nil, client))
	pipelinetest.Must(b, err)
	server := httptest.NewUnstartedServer(served)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	b.Cleanup(server.Close)

	kind := task.NewKind[map[string]int]("order.expire")
	b.Run("library", func(b *testing.B) {
		atOnce(b, func() error {
			_, err := client.Schedule(context.Background(), kind.New("ann", map[string]int{"order": 42}, task.In(minute)))
			return err
		})
	})
	b.Run("json-bare", func(b *testing.B) {
		each(b, func() func() error { return bareCaller(b, server.Listener.Addr().String()) })
	})
	http1 := &http.Transport{MaxIdleConnsPerHost: 1000}
	b.Cleanup(http1.CloseIdleConnections)
	w := &world{url: server.URL}
	for _, form := range []struct {
		name string
		dial func(b *testing.B) duetimev1connect.TaskServiceClient
	}{
		{"grpc", func(b *testing.B) duetimev1connect.TaskServiceClient { return w.dial(b, "", transports["grpc"]...) }},
		{"grpc-web", func(b *testing.B) duetimev1connect.TaskServiceClient { return w.dial(b, "", transports["grpc-web"]...) }},
		{"json", func(b *testing.B) duetimev1connect.TaskServiceClient { return w.dial(b, "", transports["json"]...) }},
		{"json-http1", func(*testing.B) duetimev1connect.TaskServiceClient {
			return duetimev1connect.NewTaskServiceClient(&http.Client{Transport: http1}, w.url, connect.WithProtoJSON())
		}},
		{"proto-http1", func(*testing.B) duetimev1connect.TaskServiceClient {
			return duetimev1connect.NewTaskServiceClient(&http.Client{Transport: http1}, w.url)
		}},
	} {
		b.Run(form.name, func(b *testing.B) {
			c := form.dial(b)
			atOnce(b, func() error {
				_, err := c.Schedule(context.Background(), &v1.ScheduleRequest{Task: newTask("ann")})
				return err
			})
		})
	}
}

// bareCaller returns a caller that sends the same JSON on a connection of its own and reads little of the answers: it leaves
// the processors to the API, as callers on other machines do.
func bareCaller(b *testing.B, addr string) func() error {
	b.Helper()
	conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", addr)
	pipelinetest.Must(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	const body = `{"task":{"kind":"order.expire","owner":"ann","payload":{"order":42},"dueIn":"3600s"}}`
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		duetimev1connect.TaskServiceScheduleProcedure, len(body), body)
	answers := bufio.NewReader(conn)
	return func() error {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		res, err := http.ReadResponse(answers, nil)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode != http.StatusOK {
			return errors.New(res.Status)
		}
		_, err = io.Copy(io.Discard, res.Body)
		return err
	}
}

func atOnce(b *testing.B, call func() error) {
	b.Helper()
	each(b, func() func() error { return call })
}

// each gives each caller a call of its own.
func each(b *testing.B, dial func() func() error) {
	b.Helper()
	b.SetParallelism(callersPerCPU)
	b.ReportAllocs()
	b.ResetTimer()
	before := processorTime(b)
	b.RunParallel(func(pb *testing.PB) {
		call := dial()
		for pb.Next() {
			if err := call(); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// processorTime is what callers and API have taken of the processors, without the database: a figure that a busy machine leaves as
// it is.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	pipelinetest.Must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
