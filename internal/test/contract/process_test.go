package contract_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// limit is how long an adapter may take for a line. It is generous because the machine may be slow and shared.
const limit = time.Minute

// request is a line that an adapter reads; the package comment tells what each field means.
type request struct {
	Do       string   `json:"do"`
	ID       *task.ID `json:"id,omitempty"`
	Owner    string   `json:"owner,omitempty"`
	Queue    string   `json:"queue,omitempty"`
	Key      string   `json:"key,omitempty"`
	Due      int64    `json:"due,omitempty"`
	Version  int64    `json:"version,omitempty"`
	Payload  any      `json:"payload,omitempty"`
	Fail     string   `json:"fail,omitempty"`
	Careless bool     `json:"careless,omitempty"`
	Stops    []string `json:"stops,omitempty"`
}

// reply is a line that an adapter writes: it has an answer, or stands at a point.
type reply struct {
	Answer string `json:"answer"`
	At     string `json:"at"`
}

// process is an adapter at work.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string // what it writes; an empty line is its end
	stderr bytes.Buffer
}

func startProcess(command []string) (*process, error) {
	p := &process{cmd: exec.Command(command[0], command[1:]...), lines: make(chan string, 16)}
	p.cmd.Stderr = &p.stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.lines)
		for scan := bufio.NewScanner(stdout); scan.Scan(); {
			p.lines <- scan.Text()
		}
		p.lines <- ""
	}()
	return p, nil
}

func (p *process) send(r any) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = p.stdin.Write(append(line, '\n'))
	return err
}

// next returns the adapter's next line.
func (p *process) next() (r reply, err error) {
	select {
	case line := <-p.lines:
		if line == "" {
			p.kill()
			return r, fmt.Errorf("it has ended: %s", lastLine(p.stderr.String()))
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return r, fmt.Errorf("it wrote %q: %w", line, err)
		}
		return r, nil
	case <-time.After(limit):
		return r, fmt.Errorf("no line within %v", limit)
	}
}

// kill ends the process as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	for range p.lines { // what it has written before
	}
	_ = p.cmd.Wait()
}

// lastLine is where Python and Go say what went wrong.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
