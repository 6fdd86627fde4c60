package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

var (
	// typeable begins with the tool or Redis's client in a line of a fenced block, or with the tool in backquotes, and ends at a
	// comment.
	typeable = regexp.MustCompile("(?m)^ *((?:duetime [a-z]|redis-cli )[^`#\n]*)|`(duetime [a-z][^`#\n]*)`")
	moment   = regexp.MustCompile(`"\$\(date[^"]*\)"`)
)

// named are commands that a page's prose names without saying what about.
var named = map[string]bool{"duetime top": true, "duetime shard rebuild": true}

// typeRunbooks types the commands of every page, in their order, as the users that docs/runbooks/README.md names: the tool as
// operator and migrate, Redis's client as its administrator. What a page's end says of how to cause its fault is left out.
func (d *drill) typeRunbooks(t *testing.T) {
	d.dead, d.waiting = d.insert(t, 2, 0), d.insert(t, 3, time.Hour)
	pages, err := filepath.Glob("../docs/runbooks/*.md")
	pipelinetest.Must(t, err)
	n := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		pipelinetest.Must(t, err)
		todo, _, _ := strings.Cut(string(text), "**Try it**")
		for _, m := range typeable.FindAllStringSubmatch(moment.ReplaceAllString(todo, "2026-01-01T00:00:00Z"), -1) {
			command := strings.TrimSpace(m[1] + m[2])
			if named[command] {
				continue
			}
			n++
			t.Run(fmt.Sprintf("%s %s", filepath.Base(page), command), func(t *testing.T) { d.typed(t, command) })
		}
	}
	if n < 50 {
		t.Errorf("only %d commands found", n)
	}
}

// typed runs a command of a page and wants it to work.
func (d *drill) typed(t *testing.T, command string) {
	t.Helper()
	if strings.HasPrefix(command, "redis-cli") {
		d.administer(t, command)
		return
	}
	args := strings.Fields(d.meant(command) + " --yes")[1:]
	said := ""
	pipelinetest.Await(t, command, func() bool {
		code, out, complaint := d.Tool(t, args...)
		wantAllowed(t, command, out)
		wantAllowed(t, command, complaint)
		if now := fmt.Sprintf("exit code %d\n%s\n%s", code, out, complaint); now != said {
			said = now
			t.Log(said)
		}
		// The commands before it have their consequences: an audit may find some, and a task may not be dead yet.
		worked := code == 0 || args[0] == "verify" && complaint == ""
		if !worked && !strings.Contains(command, " ID") {
			t.Error("it did not work")
		}
		return worked || t.Failed()
	})
}

// meant puts something in the place of what a page's command only names.
func (d *drill) meant(command string) string {
	command = strings.NewReplacer("KIND", "pet.meal_finished", "OLD", "default", "NEW", "default", "QUEUE", "default").Replace(command)
	if !strings.Contains(command, " ID") {
		return command
	}
	ids := &d.waiting
	if strings.HasPrefix(command, "duetime dead") {
		ids = &d.dead
	}
	id := (*ids)[0]
	if !strings.Contains(command, " get ") {
		*ids = (*ids)[1:]
	}
	return strings.Replace(command, "ID", id, 1)
}

// administer types a line of Redis's client, on this deployment's Redis, as its user admin.
func (d *drill) administer(t *testing.T, line string) {
	t.Helper()
	client, err := exec.LookPath("redis-cli")
	pipelinetest.Must(t, err)
	bin := t.TempDir()
	host, port, _ := strings.Cut(d.Redis, ":")
	script := fmt.Sprintf("#!/bin/sh\nshift 2 # the page's port\nexec %s --tls --cacert %s -h %s -p %s --user admin --no-auth-warning -e \"$@\"\n",
		client, filepath.Join(d.certs, "ca.crt"), host, port)
	pipelinetest.Must(t, os.WriteFile(filepath.Join(bin, "redis-cli"), []byte(script), 0o700))
	cmd := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", line)
	cmd.Env = append(slices.Clone(os.Environ()), "PATH="+bin+":"+os.Getenv("PATH"), "REDISCLI_AUTH="+d.Secured.Password("admin"))
	out, err := cmd.CombinedOutput()
	wantAllowed(t, line, string(out))
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
