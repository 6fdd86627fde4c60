package prometheus_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// TestRunbooksNameCommandsThatExist asks the tool for the help of each command that a runbook gives, with its flags: one
// that is misspelt answers with another command's help, or with an error.
func TestRunbooksNameCommandsThatExist(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(runbooks + "/*.md")
	pipelinetest.Must(t, err)
	tool, seen := pipelinetest.Build(t, "./cmd/duetime"), map[string]bool{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		pipelinetest.Must(t, err)
		for _, command := range commandsIn(string(text)) {
			if seen[command] {
				continue
			}
			seen[command] = true
			run := pipelinetest.Run(t, tool, nil, append(strings.Fields(command)[1:], "--help")...)
			if code := run.Wait(t, time.Minute); code != 0 || !strings.Contains(run.Stdout(), "\n  "+verbs(command)+" ") && !strings.Contains(run.Stdout(), "\n  "+verbs(command)+"\n") {
				t.Errorf("%s: %s: exit code %d, and the help of another command:\n%s", page, command, code, run.Stdout())
			}
		}
	}
	if len(seen) < 15 {
		t.Errorf("only these commands found: %v", seen)
	}
}

// command begins at "duetime " in a line of a fenced block or in backquotes, and ends at a comment; moment is one that the
// shell computes.
var (
	command = regexp.MustCompile("(?m)(?:^ *|`)(duetime [a-z][^`#\n]*)")
	moment  = regexp.MustCompile(`"\$\(date[^"]*\)"`)
)

func commandsIn(text string) []string {
	text = moment.ReplaceAllString(text, "2026-01-01T00:00:00Z")
	var found []string
	for _, m := range command.FindAllStringSubmatch(text, -1) {
		found = append(found, strings.TrimSpace(m[1]))
	}
	return found
}

// verbs is the command without what it is about: "duetime dead retry" of "duetime dead retry ID --yes".
func verbs(command string) string {
	words := strings.Fields(command)
	n := 1
	for n < len(words) && regexp.MustCompile(`^[a-z]+$`).MatchString(words[n]) && !isName(words[n]) {
		n++
	}
	return strings.Join(words[:n], " ")
}

// isName tells what stands after "resign".
func isName(word string) bool { return word == "event" || word == "daemon" }
