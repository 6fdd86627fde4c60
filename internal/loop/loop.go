// Package loop owns the rhythm of background work: when a pass runs again, and the Clock that tells the database's time.
//
// It promises that a pass that found a full page runs again at once, that an idle pass sleeps exactly as long as it
// asked, that a wake-up during a pass is not lost, that errors are retried with backoff, and that a pass never runs
// twice side by side. It never runs a pass after its context has ended, and never spins.
//
// A pass does one bounded piece of work. Tests of other packages call the pass; only this package tests time.
package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

const (
	defaultInterval   = time.Second
	defaultMinBackoff = 100 * time.Millisecond
	defaultMaxBackoff = 5 * time.Second
	// minSleep is the sleep after a pass whose next moment has gone by. It doubles with each such pass in a row.
	minSleep = time.Millisecond
)

// Config says how a loop keeps time. Its zero value is usable.
type Config struct {
	// Name is the loop's name in logs.
	Name string
	// Interval is the longest sleep of an idle loop. Default 1 s.
	Interval time.Duration
	// Jitter, from 0 to 1, is the share of Interval by which an idle sleep is shortened at random, so that processes that
	// start together don't stay in step. Default 0. A Result's Next is never jittered.
	Jitter float64
	// MinBackoff and MaxBackoff bound the sleep after an error, which doubles with each error in a row and is shortened
	// at random by up to half. Defaults 100 ms and 5 s.
	MinBackoff, MaxBackoff time.Duration
	// Wake ends an idle sleep. The channel needs a capacity of 1 and a sender that doesn't block: then any number of
	// wake-ups during a pass makes one further pass, at once. A wake-up does not end a backoff, but counts after it.
	// Wake may be nil, and may be closed when nobody will wake the loop any more.
	Wake <-chan struct{}
	// Succeeded is called after each pass without an error. May be nil.
	Succeeded func()
	// Logger logs an error when its text differs from the last one's, and the first success after an error. Default none.
	Logger *slog.Logger
}

// Rouse sends a wake-up for Config.Wake, unless one is waiting already. It never blocks.
func Rouse(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// Result is what a pass without an error says about the next one.
type Result struct {
	// More asks for the next pass at once: the page was full.
	More bool
	// Next is the exact sleep until the next pass, at most Interval; 0 means Interval. A negative Next says that the
	// moment has gone by: the pass runs again within a millisecond, or later if many passes in a row say so.
	Next time.Duration
}

// stopError carries an error out of Run.
type stopError struct{ err error }

func (e stopError) Error() string { return e.err.Error() }
func (e stopError) Unwrap() error { return e.err }

// Stop marks an error after which no further pass makes sense: Run returns the pass's error. A pass may wrap the marked
// error. Stop(nil) is nil.
func Stop(err error) error {
	if err == nil {
		return nil
	}
	return stopError{err}
}

// Run repeats pass, the first time at once, until ctx ends; then Run returns nil as soon as the pass in flight has
// returned. Otherwise Run returns only errors marked with Stop and errors about an impossible cfg. The pass gets ctx
// itself.
func Run(ctx context.Context, cfg Config, pass func(ctx context.Context) (Result, error)) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	r := runner{Config: cfg}
	for ctx.Err() == nil {
		r.drainWake()
		res, err := pass(ctx)
		if _, stop := errors.AsType[stopError](err); stop {
			return err
		}
		if ctx.Err() != nil {
			break // the pass's error is only that it was interrupted
		}
		if err != nil {
			sleep(ctx, r.backoff(ctx, err), nil)
			continue
		}
		r.logRecovery(ctx)
		if r.Succeeded != nil {
			r.Succeeded()
		}
		if d := r.idle(res); d > 0 {
			sleep(ctx, d, r.Wake)
		}
	}
	return nil //nolint:nilerr // stopping is not an error
}

func (c Config) withDefaults() (Config, error) {
	c.Interval = cmp.Or(c.Interval, defaultInterval)
	c.MinBackoff = cmp.Or(c.MinBackoff, min(defaultMinBackoff, cmp.Or(c.MaxBackoff, defaultMinBackoff)))
	c.MaxBackoff = cmp.Or(c.MaxBackoff, max(defaultMaxBackoff, c.MinBackoff))
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	switch {
	case c.Interval < 0:
		return c, fmt.Errorf("loop %s: interval %v is below 0", c.Name, c.Interval)
	case !(c.Jitter >= 0 && c.Jitter <= 1): // so that NaN is refused too
		return c, fmt.Errorf("loop %s: jitter %v is not from 0 to 1", c.Name, c.Jitter)
	case c.MinBackoff < 0 || c.MinBackoff > c.MaxBackoff:
		return c, fmt.Errorf("loop %s: back-off from %v to %v", c.Name, c.MinBackoff, c.MaxBackoff)
	}
	return c, nil
}

// runner is what a loop remembers from one pass to the next.
type runner struct {
	Config
	errs    int    // errors in a row
	errText string // of the last one logged
	overdue int    // passes in a row whose next moment had gone by
}

// drainWake takes the wake-ups so far: the pass that starts now serves them.
func (r *runner) drainWake() {
	for {
		select {
		case _, open := <-r.Wake:
			if !open {
				r.Wake = nil // a closed channel would end every sleep
				return
			}
		default:
			return
		}
	}
}

// idle returns the sleep after a pass without an error.
func (r *runner) idle(res Result) time.Duration {
	if res.More {
		r.overdue = 0
		return 0
	}
	if res.Next < 0 {
		d := doubled(minSleep, r.Interval, r.overdue)
		r.overdue++
		return d
	}
	r.overdue = 0
	d := r.Interval - time.Duration(rand.Float64()*r.Jitter*float64(r.Interval)) //nolint:gosec // Spreads load, guards nothing.
	if res.Next > 0 {
		d = min(d, res.Next)
	}
	return d
}

// backoff logs err if its text is new, and returns the sleep after it.
func (r *runner) backoff(ctx context.Context, err error) time.Duration {
	d := doubled(r.MinBackoff, r.MaxBackoff, r.errs)
	r.errs++
	if text := err.Error(); r.errs == 1 || text != r.errText {
		r.errText = text
		r.Logger.LogAttrs(ctx, slog.LevelWarn, "pass error",
			slog.String("loop", r.Name), slog.Int("attempt", r.errs), slog.Any("err", err))
	}
	return d - time.Duration(rand.Float64()*float64(d)/2) //nolint:gosec // Spreads load, guards nothing.
}

func (r *runner) logRecovery(ctx context.Context) {
	if r.errs == 0 {
		return
	}
	r.Logger.LogAttrs(ctx, slog.LevelInfo, "pass recovered", slog.String("loop", r.Name), slog.Int("n", r.errs))
	r.errs, r.errText = 0, ""
}

// doubled returns lowest·2^times, at most highest.
func doubled(lowest, highest time.Duration, times int) time.Duration {
	d := lowest
	for ; times > 0 && d < highest; times-- {
		d *= 2
	}
	return min(d, highest)
}

// Sleep returns after d, or when ctx ends.
func Sleep(ctx context.Context, d time.Duration) { sleep(ctx, d, nil) }

// sleep returns after d, or earlier when a wake-up comes or ctx ends.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-wake:
	}
}
