// Package terminaltest runs programs on a terminal of 80×24 for tests, which read its screen, type, and draw it. It is no part
// of pipelinetest because that is also used where nobody needs a terminal's libraries.
package terminaltest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// The size of every terminal here: what a person has at least.
const (
	terminalColumns = 80
	terminalLines   = 24
)

// Terminal is a program at work on a terminal of 80×24.
type Terminal struct {
	cmd   *exec.Cmd
	tty   *os.File
	ended chan struct{} // closed once the program is reaped
	shown chan struct{} // closed once all that it wrote is on the screen

	mu     sync.Mutex
	screen vt10x.Terminal
	kept   func(text string) bool // asks of each screen whether to keep it as the snapshot
	svg    string                 // of the snapshot
}

// Run starts a binary on a terminal, as pipelinetest.Run does elsewhere, in the folder and below the line that a person would
// have typed there. The first screen that keep says yes to becomes the snapshot; keep may be nil.
func Run(t testing.TB, folder string, keep func(text string) bool, binary string, env []string, args ...string) *Terminal {
	t.Helper()
	x := &Terminal{ended: make(chan struct{}), shown: make(chan struct{}), kept: keep}
	x.screen = vt10x.New(vt10x.WithSize(terminalColumns, terminalLines))
	name := binary[strings.LastIndexAny(binary, "/-")+1:]
	_, _ = fmt.Fprintf(x.screen, "$ %s\r\n", strings.Join(append([]string{name}, args...), " ")) // it takes anything
	x.cmd = exec.Command(binary, args...)                                                        //nolint:gosec,noctx // a test's own binary, ended by the cleanup
	x.cmd.Dir, x.cmd.Env = folder, append(append(cleanEnv(), "TERM=xterm-256color", "COLORTERM="), env...)
	var err error
	x.tty, err = pty.StartWithAttrs(x.cmd, &pty.Winsize{Rows: terminalLines, Cols: terminalColumns},
		&syscall.SysProcAttr{Setsid: true, Setctty: true})
	pipelinetest.Must(t, err)
	go func() { defer close(x.shown); x.read() }()
	go func() {
		defer close(x.ended)
		_ = x.cmd.Wait() // its exit status is read from ProcessState
	}()
	t.Cleanup(func() {
		_ = x.cmd.Process.Kill() // it may have ended
		<-x.ended
		_ = x.tty.Close() // ends the reading, if it has not
		<-x.shown
		if t.Failed() {
			t.Logf("the screen:\n%s", x.Text())
		}
	})
	return x
}

// read shows what the program writes until it has ended.
func (x *Terminal) read() {
	buffer := make([]byte, 4096)
	for {
		n, err := x.tty.Read(buffer)
		for wrote := buffer[:n]; len(wrote) > 0; {
			frame := wrote
			if end := bytes.IndexAny(wrote, "\r\n"); end >= 0 {
				frame = wrote[:end+1]
			}
			x.show(frame)
			wrote = wrote[len(frame):]
		}
		if err != nil {
			return // the program's side is closed
		}
	}
}

// show writes what ends a frame at most, so that none is passed over when many come at once.
func (x *Terminal) show(frame []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, _ = x.screen.Write(frame) // it takes anything
	if x.kept != nil && x.kept(x.text()) {
		x.kept, x.svg = nil, x.draw()
	}
}

// Type sends keys.
func (x *Terminal) Type(t testing.TB, keys string) {
	t.Helper()
	_, err := x.tty.WriteString(keys)
	pipelinetest.Must(t, err)
}

// Text returns what the screen shows, without blanks at the lines' ends and empty lines at its own.
func (x *Terminal) Text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text()
}

func (x *Terminal) text() string {
	var lines []string
	for line := range strings.SplitSeq(x.screen.String(), "\n") {
		lines = append(lines, strings.TrimRight(line, " \x00"))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// WaitText waits until the screen shows the text.
func (x *Terminal) WaitText(t testing.TB, text string) {
	t.Helper()
	pipelinetest.Await(t, "the screen to show "+text, func() bool { return strings.Contains(x.Text(), text) })
}

// Wait waits for the program's end, and until the screen shows all, and gives its exit code.
func (x *Terminal) Wait(t testing.TB, limit time.Duration) int {
	t.Helper()
	late := time.After(limit)
	for _, done := range []chan struct{}{x.ended, x.shown} {
		select {
		case <-done:
		case <-late:
			t.Fatalf("%s still runs after %v", x.cmd.Path, limit)
		}
	}
	return x.cmd.ProcessState.ExitCode()
}

// Kept reports whether there is a snapshot.
func (x *Terminal) Kept() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.svg != ""
}

// SVG draws the snapshot, or else the screen as it is now.
func (x *Terminal) SVG() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.svg != "" {
		return x.svg
	}
	return x.draw()
}

// cleanEnv is this process's environment without what would configure duetime.
func cleanEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "DUETIME_") })
}
