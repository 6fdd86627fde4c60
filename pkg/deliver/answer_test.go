package deliver_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/duetimetest"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// fireOne delivers one task once to the URL.
func fireOne(t *testing.T, url string, timeout time.Duration) (duetimetest.Fired, *world) {
	t.Helper()
	w, kind := newWorld(t), kindOf("order.expired", once)
	w.handle(kind, url, timeout)
	w.due(kind, "ann")
	w.mux.Use(func(next worker.HandlerFunc) worker.HandlerFunc {
		return func(ctx context.Context, tasks []task.Task) error {
			err := next(ctx, tasks)
			if ctx.Err() != nil {
				t.Errorf("the handler's time had ended when it answered %v", err)
			}
			return err
		}
	})
	fired := w.fire(0)
	if len(fired) != 1 {
		t.Fatalf("fired %v, want one run", fired)
	}
	return fired[0], w
}

// serve answers each connection by a function, without any HTTP.
func serve(t *testing.T, answer func(c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	pipelinetest.Must(t, err)
	ended := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-ended })
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			answer(c)
			_ = c.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

// waitsForEnd reads until the other side has closed: an endpoint that never answers.
func waitsForEnd(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func TestAnswers(t *testing.T) {
	t.Parallel()
	var followed atomic.Int64
	target := newReceiver(t, func(int, http.ResponseWriter, *http.Request) { followed.Add(1) })
	redirect := func(status int) string {
		return newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", target.URL+"/hunter2")
			w.WriteHeader(status)
		}).URL
	}
	raw := func(answer string) string {
		return serve(t, func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1)) // what comes before the request is no answer
			_, _ = io.WriteString(c, answer)
			waitsForEnd(c)
		})
	}
	moved := func(location string) string {
		return raw("HTTP/1.1 301 Moved Permanently\r\nContent-Length: 0\r\nLocation: " + location + "\r\n\r\n")
	}
	silent := serve(t, func(net.Conn) { <-t.Context().Done() }) // takes connections and says nothing, as a firewall does
	const short = 200 * time.Millisecond
	long := strings.Repeat("a", 50_000)
	for name, tt := range map[string]struct {
		url     string
		timeout time.Duration
		result  string
		says    string // the last error
		outcome string // in metrics
	}{
		"200":              {says(t, 200, "", "thanks").URL, 0, duetimetest.Done, "", "done"},
		"204":              {says(t, 204, "", "").URL, 0, duetimetest.Done, "", "done"},
		"299, Retry-After": {says(t, 299, "9", "").URL, 0, duetimetest.Done, "", "done"},
		"410":              {says(t, 410, "", "no such\nshop").URL, 0, duetimetest.Dead, "answered 410 Gone: no such shop", "gone"},
		"410, Retry-After": {says(t, 410, "9", "").URL, 0, duetimetest.Dead, "answered 410 Gone", "gone"},
		"400":              {says(t, 400, "", "\x00<b>bad\xff</b>").URL, 0, duetimetest.Failed, "answered 400 Bad Request: <b>bad </b>", "refused"},
		"404, Retry-After": {says(t, 404, "9", "").URL, 0, duetimetest.Failed, "answered 404 Not Found", "refused"},
		"408":              {says(t, 408, "", "").URL, 0, duetimetest.Failed, "answered 408", "failed"},
		"429":              {says(t, 429, "", "").URL, 0, duetimetest.Failed, "answered 429", "failed"},
		"500":              {says(t, 500, "", "").URL, 0, duetimetest.Failed, "answered 500 Internal Server Error", "failed"},
		"503, Retry-After": {says(t, 503, "9", "").URL, 0, duetimetest.Snoozed, "", "put_off"},
		"503, unreadable":  {says(t, 503, "soon", "").URL, 0, duetimetest.Failed, "answered 503", "failed"},
		"599":              {says(t, 599, "", "").URL, 0, duetimetest.Failed, "answered 599", "failed"},
		"304":              {says(t, 304, "", "").URL, 0, duetimetest.Failed, "redirects are not followed", "failed"},
		"301":              {redirect(301), 0, duetimetest.Failed, "answered 301 Moved Permanently: redirects are not followed, this one points to " + strconv.Quote(target.URL), "failed"},
		"307":              {redirect(307), 0, duetimetest.Failed, "redirects are not followed", "failed"},
		"nobody listens":   {"http://127.0.0.1:1/hunter2", 0, duetimetest.Failed, "push to 127.0.0.1:1: dial tcp 127.0.0.1:1: connect:", "failed"},
		"no handshake":     {"https" + strings.TrimPrefix(silent, "http"), short, duetimetest.Failed, "no connection within 200ms", "failed"},
		"frozen":           {serve(t, waitsForEnd), short, duetimetest.Failed, "no answer within 200ms", "failed"},
		"hangs up":         {serve(t, func(net.Conn) {}), 0, duetimetest.Failed, "push to 127.0.0.1", "failed"},
		"no Location":      {moved("http://shop.example/%zz/hunter2"), 0, duetimetest.Failed, "redirects are not followed", "failed"},
		"long Location":    {moved("https://" + long + "/hunter2"), 0, duetimetest.Failed, `points to "https://aaa`, "failed"},
		"101":              {raw("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), 0, duetimetest.Failed, "answered 101", "failed"},
		"garbage":          {raw("220 " + older + long + "\r\n"), 0, duetimetest.Failed, `malformed HTTP status code "whsec_***aaa`, "failed"},
		"garbled header":   {raw("HTTP/1.1 200 OK\r\n" + newer + long + "\r\n\r\n"), 0, duetimetest.Failed, `malformed MIME header: missing colon: "whsec_***aaa`, "failed"},
		"endless header": {serve(t, func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for {
				if _, err := io.WriteString(c, "A: "+strings.Repeat("a", 1000)+"\r\n"); err != nil {
					return
				}
			}
		}), 0, duetimetest.Failed, "exceeded 65536 bytes", "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, w := fireOne(t, tt.url, tt.timeout)
			if got.Result != tt.result || !strings.Contains(got.LastError, tt.says) || tt.says == "" && got.LastError != "" {
				t.Errorf("got %s and %q, want %s and %q", got.Result, got.LastError, tt.result, tt.says)
			}
			if strings.Contains(got.LastError, "hunter2") || len(got.LastError) > 400 {
				t.Errorf("the error repeats a path, or has %d bytes: %s", len(got.LastError), got.LastError)
			}
			if n := w.metric("duetime_pushes_total", "outcome", tt.outcome); n != 1 {
				t.Errorf("counted %v as %s, want 1", n, tt.outcome)
			}
			charged := 1
			if tt.result == duetimetest.Done || tt.result == duetimetest.Snoozed {
				charged = 0
			}
			if got.Attempt != charged {
				t.Errorf("%d attempts charged, want %d", got.Attempt, charged)
			}
		})
	}
	t.Cleanup(func() {
		if n := followed.Load(); n > 0 {
			t.Errorf("%d redirects were followed", n)
		}
	})
}

// An answer's body is read up to a small bound, whatever its status, and however slowly it comes.
func TestBodiesAreCutOff(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		result string
	}{"done": {200, duetimetest.Done}, "failed": {500, duetimetest.Failed}} {
		t.Run("a gigabyte, "+name, func(t *testing.T) {
			t.Parallel()
			const chunk, gigabyte = 1 << 16, 1 << 30
			var written atomic.Int64
			rec := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				for written.Load() < gigabyte {
					n, err := w.Write(make([]byte, chunk))
					if written.Add(int64(n)); err != nil {
						return
					}
				}
			})
			got, _ := fireOne(t, rec.URL, 0)
			if got.Result != tt.result {
				t.Errorf("got %s (%s), want %s", got.Result, got.LastError, tt.result)
			}
			rec.Close() // the answer has ended
			if n := written.Load(); n > gigabyte/64 {
				t.Errorf("%d bytes were taken", n)
			}
		})
		t.Run("drop by drop, "+name, func(t *testing.T) {
			t.Parallel()
			rec := newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, "drop")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})
			got, _ := fireOne(t, rec.URL, time.Hour)
			if got.Result != tt.result || tt.result == duetimetest.Failed && !strings.HasSuffix(got.LastError, ": drop") {
				t.Errorf("got %s (%s), want %s", got.Result, got.LastError, tt.result)
			}
		})
	}
}

// An answer that repeats secrets doesn't bring them into the error, and a long one is cut.
func TestErrorsHoldNoSecret(t *testing.T) {
	t.Parallel()
	rec := says(t, 500, "", "your secrets: "+older+" "+newer+" "+strings.Repeat("的", 1000))
	got, _ := fireOne(t, rec.URL, 0)
	masked := strings.Contains(got.LastError, "your secrets: whsec_*** whsec_*** 的的")
	if !masked || !strings.HasSuffix(got.LastError, "的…") || len(got.LastError) > 400 {
		t.Errorf("got %q", got.LastError)
	}
	for _, secret := range []string{older, newer} {
		if strings.Contains(got.LastError, strings.TrimPrefix(secret, "whsec_")) {
			t.Errorf("a secret in %q", got.LastError)
		}
	}
}

// An endpoint that closes an idle connection just as the next request comes costs no attempt.
func TestIdleConnectionThatCloses(t *testing.T) {
	t.Parallel()
	var connections atomic.Int64
	url := serve(t, func(c net.Conn) {
		requests, first := bufio.NewReader(c), connections.Add(1) == 1
		for n := 0; ; n++ {
			r, err := http.ReadRequest(requests)
			if err != nil || first && n == 1 {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	w, kind := newWorld(t), kindOf("order.expired", once)
	w.handle(kind, url, 0)
	for _, owner := range []string{"ann", "bob"} {
		w.due(kind, owner)
		if fired := w.fire(0); len(fired) != 1 || fired[0].Result != duetimetest.Done {
			t.Errorf("%s: got %v, want done", owner, fired)
		}
	}
	if n := connections.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	inAMinute := func() string { return time.Now().Add(time.Minute).UTC().Format(http.TimeFormat) }
	for name, tt := range map[string]struct {
		status            int
		header            func() string
		shortest, longest time.Duration
	}{
		"seconds":   {503, func() string { return "30" }, 30 * time.Second, 33 * time.Second},
		"throttled": {429, func() string { return "30" }, 30 * time.Second, 33 * time.Second},
		"none":      {503, func() string { return "0" }, time.Second, 1100 * time.Millisecond},
		"a date":    {503, inAMinute, 30 * time.Second, 66 * time.Second},
		"long ago":  {503, func() string { return "Mon, 02 Jan 2006 15:04:05 GMT" }, time.Second, 1100 * time.Millisecond},
		"a century": {503, func() string { return "3153600000" }, time.Hour, 66 * time.Minute},
		"too long":  {503, func() string { return "18446744073709551615" }, time.Hour, 66 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _ := fireOne(t, says(t, tt.status, tt.header(), "").URL, 0)
			if wait := got.RunAt.Sub(got.UpdatedAt); got.Result != duetimetest.Snoozed || wait < tt.shortest || wait > tt.longest {
				t.Errorf("got %s, the next try %v later, want snoozed, %v to %v", got.Result, wait, tt.shortest, tt.longest)
			}
		})
	}
}
