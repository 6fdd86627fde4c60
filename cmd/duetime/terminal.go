package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// who names the operator in the history: user@host.
func who() string {
	name := os.Getenv("SUDO_USER")
	if name == "" {
		name = fmt.Sprintf("uid %d", os.Getuid())
		if u, err := user.Current(); err == nil && u.Username != "" {
			name = u.Username
		}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return name + "@" + host
}

func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// width returns the columns of the output's terminal; false if the output is no terminal.
func (t *tool) width() (int, bool) {
	if !isTerminal(t.out) {
		return 0, false
	}
	file, _ := t.out.(*os.File)
	width, _, err := term.GetSize(int(file.Fd()))
	return width, err == nil && width > 0
}

// confirm asks whether to go on, unless --yes was given. Without a terminal it refuses.
func (t *tool) confirm(ctx context.Context, question string) error {
	if t.yes {
		return nil
	}
	if !isTerminal(t.in) {
		return fmt.Errorf("%s: without a terminal to ask at this needs --yes", strings.TrimSuffix(question, "?"))
	}
	_, _ = fmt.Fprintf(t.errs, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() {
		line, err := bufio.NewReader(t.in).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			line = ""
		}
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case answer := <-answers:
		if answer == "y" || answer == "yes" {
			return nil
		}
	case <-ctx.Done():
		_, _ = fmt.Fprintln(t.errs)
	}
	return errors.New("nothing was changed")
}

// confirmOnTerminal is confirm where there is a terminal: a script is trusted to name the right thing.
func (t *tool) confirmOnTerminal(ctx context.Context, question string) error {
	if !isTerminal(t.in) {
		return nil
	}
	return t.confirm(ctx, question)
}

// progress shows the progress of a long command: a bar on a terminal, a line every progressInterval elsewhere.
type progress struct {
	to       io.Writer
	what     string
	total    int
	done     int
	lastLine time.Time
	bar      *progressbar.ProgressBar
}

const (
	progressInterval = 5 * time.Second
	barWidth         = 30
)

func (t *tool) progress(what string, total int) *progress {
	p := &progress{to: t.errs, what: what, total: total, lastLine: time.Now()}
	if isTerminal(t.errs) {
		p.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(t.errs), progressbar.OptionSetDescription(what),
			progressbar.OptionSetWidth(barWidth), progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(50*time.Millisecond),
			progressbar.OptionSetTheme(progressbar.Theme{Saucer: "█", SaucerPadding: "░", BarStart: "▐", BarEnd: "▌"}))
	}
	return p
}

// set shows the number of finished steps.
func (p *progress) set(done int) {
	p.done = done
	switch {
	case p.bar != nil:
		_ = p.bar.Set(done) // an error means that the terminal was closed
	case time.Since(p.lastLine) >= progressInterval:
		p.lastLine = time.Now()
		_, _ = fmt.Fprintf(p.to, "%s: %d of %d\n", p.what, done, p.total)
	}
}

// end keeps the bar on the screen and starts a new line.
func (p *progress) end() {
	if p.bar != nil {
		_, _ = fmt.Fprintln(p.to)
	}
}
