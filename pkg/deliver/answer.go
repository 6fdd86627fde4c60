package deliver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

const (
	maxBodyBytes = 4 * 1024               // that are read of an answer
	bodyTime     = 250 * time.Millisecond // for these
	maxExcerpt   = 200                    // bytes that an error repeats of what an endpoint made

	minRetryAfter = time.Second // bounds of what the header Retry-After may ask for
	maxRetryAfter = time.Hour
	retryAfterFor = 24 * time.Hour // after a task was due; later the same answers are failed attempts
)

// refusedError is an answer that speaks against the task, not against the endpoint.
type refusedError struct{ error }

// stoppedError says that the worker stopped: nobody's failure.
type stoppedError struct{ error }

func (e stoppedError) Unwrap() error { return e.error }

// judge returns what an answer means for its task: nil for done. Text is a part of the answer's body.
func (e *endpoint) judge(res *http.Response, text string, t task.Task, now time.Time) error {
	status := res.StatusCode
	if status >= 200 && status < 300 {
		return nil
	}
	err := fmt.Errorf("push to %s: answered %d %s%s", e.url.Host, status, http.StatusText(status), text)
	switch wait, asked := retryAfter(res.Header, now); {
	case status == http.StatusGone:
		return worker.Discard(err)
	case asked && mayWait(status) && now.Sub(transition.FiredFrom(t)) < retryAfterFor:
		return worker.Snooze(wait + rand.N(wait/10)) //nolint:gosec // Spreads load, guards nothing.
	case status >= 300 && status < 400:
		return fmt.Errorf("%w: redirects are not followed%s", err, e.target(res))
	case status >= 400 && status < 500 && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests:
		return refusedError{err}
	}
	return err
}

// mayWait reports whether Retry-After counts with the status.
func mayWait(status int) bool { return status == http.StatusTooManyRequests || status >= 500 }

// target says where a redirect points to, without a path: that may hold a token.
func (e *endpoint) target(res *http.Response) string {
	u, err := url.Parse(res.Header.Get("Location"))
	if err != nil || u.Host == "" {
		return ""
	}
	return fmt.Sprintf(", this one points to %q", e.clean(u.Scheme+"://"+u.Host))
}

// retryAfter reads the header Retry-After, which has seconds or a date, and bounds it.
func retryAfter(h http.Header, now time.Time) (wait time.Duration, asked bool) {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil {
		wait = time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	} else {
		return 0, false
	}
	return min(max(wait, minRetryAfter), maxRetryAfter), true
}

// excerpt reads the beginning of the answer's body, so that its connection can be used again if that is all, and returns what
// an error may repeat of it, with a colon before. It ends the request, by cancel, if the body comes too slowly.
func (e *endpoint) excerpt(res *http.Response, cancel context.CancelFunc) string {
	if res.StatusCode == http.StatusSwitchingProtocols {
		return "" // the body is the connection itself, whose reads no context ends
	}
	slow := time.AfterFunc(bodyTime, cancel)
	defer slow.Stop()
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxBodyBytes)) // what came, came
	if text := e.clean(string(body)); text != "" {
		return ": " + text
	}
	return ""
}

// clean returns what an error may repeat of a text that the endpoint made: its beginning, on one line, without secrets. Errors
// of the HTTP library repeat up to 64 KiB of an answer.
func (e *endpoint) clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			return r
		}
		return ' '
	}, e.signer.Mask(text))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxExcerpt {
		text = strings.ToValidUTF8(text[:maxExcerpt], "") + "…"
	}
	return text
}

// outcomeOf names an answer for metrics.
func outcomeOf(err error) string {
	switch _, refused := errors.AsType[refusedError](err); {
	case err == nil:
		return "done"
	case worker.IsDiscard(err):
		return "gone"
	case worker.IsSnooze(err):
		return "put_off"
	case refused:
		return "refused"
	case isStopped(err):
		return "stopped"
	}
	return "failed"
}

func isStopped(err error) bool {
	_, stopped := errors.AsType[stoppedError](err)
	return stopped
}
