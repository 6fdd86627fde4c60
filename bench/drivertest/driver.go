// Package drivertest plays jobs through drivers in other languages, as the benchmark does.
package drivertest

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/duetime/duetime/bench/protocol"
	"github.com/duetime/duetime/bench/queue"
	"github.com/duetime/duetime/internal/test/pipelinetest" //nolint:depguard // only tests call this package
)

// Driver is a running driver.
type Driver struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
}

// Start runs a command that speaks the protocol and waits until its system is open. It ends with the test.
func Start(t *testing.T, env queue.Env, command ...string) *Driver {
	t.Helper()
	settings, err := json.Marshal(env)
	pipelinetest.Must(t, err)
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...) //nolint:gosec // a test's own command
	cmd.Env = append(os.Environ(), "BENCH="+string(settings))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	pipelinetest.Must(t, err)
	out, err := cmd.StdoutPipe()
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, cmd.Start())
	d := &Driver{t: t, cmd: cmd, in: in, lines: bufio.NewReader(out)}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // it ends with its input; after Stop it has
	})
	d.read()
	return d
}

// Ask has the driver do something that must succeed.
func (d *Driver) Ask(r protocol.Request) protocol.Response {
	d.t.Helper()
	answer := d.Try(r)
	if answer.Error != "" {
		d.t.Fatalf("%s: %s", r.Op, answer.Error)
	}
	return answer
}

// Try is Ask for what may fail.
func (d *Driver) Try(r protocol.Request) protocol.Response {
	d.t.Helper()
	pipelinetest.Must(d.t, json.NewEncoder(d.in).Encode(r))
	return d.read()
}

func (d *Driver) read() protocol.Response {
	d.t.Helper()
	line, err := d.lines.ReadBytes('\n')
	pipelinetest.Must(d.t, err)
	var answer protocol.Response
	pipelinetest.Must(d.t, json.Unmarshal(line, &answer))
	return answer
}

// Stop ends the driver gracefully.
func (d *Driver) Stop() {
	d.t.Helper()
	d.Ask(protocol.Request{Op: "stop"})
	pipelinetest.Must(d.t, d.cmd.Wait())
}
