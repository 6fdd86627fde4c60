// Package wait waits for servers that a process can't do without, and knows the errors that waiting can't fix.
package wait

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// The waits between two tries. With jitter the longest wait is just under 2 s.
const (
	firstWait  = 100 * time.Millisecond
	maxWait    = 1500 * time.Millisecond
	waitJitter = 0.3
	tryTimeout = 5 * time.Second // a server that accepts the connection and never answers counts as away then
	// logInterval is the time until the same error is logged again, so that a log's tail shows what a process waits for.
	logInterval = 10 * time.Second
)

// Fatal marks err as one that retrying cannot fix, such as refused credentials. For returns it at once, and a process ends
// with exit code 1 even after a signal. Fatal(nil) is nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return backoff.Permanent(err)
}

// IsFatal reports whether err was marked with Fatal, or with backoff.Permanent, which is the same.
func IsFatal(err error) bool {
	_, ok := errors.AsType[*backoff.PermanentError](err)
	return ok
}

// UnlessStopped returns nil once ctx has ended, unless err is fatal: other errors only say that ctx has ended.
func UnlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && !IsFatal(err) {
		return nil
	}
	return err
}

// For calls probe until it returns nil, with growing, jittered waits of at most 2 s. For logs "waiting" with the server
// and the reason: at once, when the reason changes, and every 10 s. A probe has 5 s for one try and must return when its
// context ends, or it delays the process's stop. For returns nil; or the probe's error if it is fatal (IsFatal); or ctx's
// error when ctx ends.
func For(ctx context.Context, logger *slog.Logger, what string, probe func(ctx context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := waiting{logger: logger, what: what}
	pause := &backoff.ExponentialBackOff{
		InitialInterval: firstWait, Multiplier: 2, MaxInterval: maxWait, RandomizationFactor: waitJitter,
	}
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		tryCtx, cancel := context.WithTimeout(ctx, tryTimeout)
		defer cancel()
		err := probe(tryCtx)
		if IsFatal(err) {
			err = backoff.Permanent(err) // the whole error: Retry would drop what wraps the marked one
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, _ time.Duration) {
		w.logWaiting(ctx, err)
	}))
	switch {
	case err == nil:
		w.logWaited(ctx)
		return nil
	case !IsFatal(err) && ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}

// waiting remembers what was logged about one wait.
type waiting struct {
	logger   *slog.Logger
	what     string
	tries    int
	text     string
	loggedAt time.Time
}

func (w *waiting) logWaiting(ctx context.Context, err error) {
	w.tries++
	if text := err.Error(); text != w.text || time.Since(w.loggedAt) >= logInterval {
		w.text, w.loggedAt = text, time.Now()
		w.logger.LogAttrs(ctx, slog.LevelWarn, "waiting",
			slog.String("what", w.what), slog.Int("attempt", w.tries), slog.Any("err", err))
	}
}

func (w *waiting) logWaited(ctx context.Context) {
	if w.tries > 0 {
		w.logger.LogAttrs(ctx, slog.LevelInfo, "waited", slog.String("what", w.what), slog.Int("attempt", w.tries+1))
	}
}
