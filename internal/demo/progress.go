package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how much of the game has passed: a bar on a terminal, a line every five seconds elsewhere.
func (s *stage) progress(ctx context.Context) error {
	if !isTerminal(s.cfg.Err) {
		for sleep(ctx, 5*time.Second) {
			_, _ = fmt.Fprintln(s.cfg.Err, s.counts)
		}
		return nil
	}
	const tick = 100 * time.Millisecond
	bar := progressbar.NewOptions64(int64(s.cfg.For/tick),
		progressbar.OptionSetWriter(s.cfg.Err), progressbar.OptionSetWidth(24), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false))
	for sleep(ctx, tick) {
		bar.Describe(s.counts.String())
		_ = bar.Add(1)
	}
	return bar.Finish()
}

// String is the progress line.
func (c *counts) String() string {
	return fmt.Sprintf("fed %d, sped up %d, cards armed %d, cancelled %d",
		c.fed.Load(), c.spedUp.Load(), c.armed.Load(), c.cancelled.Load())
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
