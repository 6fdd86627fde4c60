package wait

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v5"
)

func TestWaitRetriesAndSaysSoSparingly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		start, last, longest := time.Now(), time.Now(), time.Duration(0)
		err := For(t.Context(), slog.New(slog.NewTextHandler(&out, nil)), "mysql", func(context.Context) error {
			longest = max(longest, time.Since(last))
			last = time.Now()
			switch d := time.Since(start); {
			case d < 25*time.Second:
				return errors.New("refused")
			case d < 28*time.Second:
				return errors.New("schema missing")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if longest < time.Second || longest > 2*time.Second {
			t.Errorf("longest pause %v, want from 1s to 2s", longest)
		}
		said := out.String()
		for text, want := range map[string]int{
			"msg=waiting what=mysql attempt=1 err=refused": 1, "err=refused": 3, `err="schema missing"`: 1, "msg=waited what=mysql": 1,
		} {
			if got := strings.Count(said, text); got != want {
				t.Errorf("%d times %q, want %d, in\n%s", got, text, want, said)
			}
		}
	})
}

func TestWaitThatFindsItsServerSaysNothing(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := For(t.Context(), slog.New(slog.NewTextHandler(&out, nil)), "redis", func(context.Context) error { return nil })
	if err != nil || out.Len() > 0 {
		t.Errorf("got %v, said %q", err, out.String())
	}
}

func TestWaitReturnsAFatalErrorAtOnce(t *testing.T) {
	t.Parallel()
	denied := errors.New("access denied")
	for name, err := range map[string]error{
		"fatal": fmt.Errorf("ping: %w", Fatal(denied)), "permanent": fmt.Errorf("ping: %w", backoff.Permanent(denied)),
	} {
		tries := 0
		got := For(t.Context(), slog.New(slog.DiscardHandler), "mysql", func(context.Context) error { tries++; return err })
		if tries != 1 || !errors.Is(got, denied) || !IsFatal(got) || !strings.HasPrefix(got.Error(), "ping: ") {
			t.Errorf("%s: got %v after %d tries", name, got, tries)
		}
	}
	if Fatal(nil) != nil || IsFatal(nil) || IsFatal(denied) {
		t.Error("nil or a plain error counts as fatal")
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, probe := range map[string]func(context.Context) error{
		"between tries": func(context.Context) error { return errors.New("away") },
		"in a try":      func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			start := time.Now()
			time.AfterFunc(time.Minute, cancel)
			err := For(ctx, slog.New(slog.DiscardHandler), "mysql", probe)
			if !errors.Is(err, context.Canceled) || time.Since(start) != time.Minute {
				t.Errorf("%s: got %v after %v, want it cancelled after 1m", name, err, time.Since(start))
			}
			if err := For(ctx, slog.New(slog.DiscardHandler), "mysql", nil); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: got %v from a context that has ended", name, err)
			}
		})
	}
}

func TestWaitGivesEachTryItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		err := For(t.Context(), slog.New(slog.DiscardHandler), "mysql", func(ctx context.Context) error {
			if tries++; tries == 3 {
				return nil
			}
			<-ctx.Done() // a server that never answers
			return ctx.Err()
		})
		if err != nil || tries != 3 {
			t.Errorf("got %v after %d tries, want nil after 3", err, tries)
		}
	})
}
