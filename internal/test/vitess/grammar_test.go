package vitess_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"vitess.io/vitess/go/vt/sqlparser"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// speakers are the packages whose tests send what the product sends.
var speakers = []string{"./internal/store", "./pkg/console/internal/views", "./internal/test/protocoltest", "./internal/test/contract"}

// left are what the store leaves off on Vitess, COMMIT AND CHAIN, and what only tests send.
var left = regexp.MustCompile(`^(?:COMMIT AND CHAIN$|(?:CREATE|DROP) USER |GRANT |ANALYZE TABLE |DO SLEEP|PREPARE p FROM )`)

// TestGrammar gives each statement to the parser of Vitess, which writes anew what it sends to MySQL. What it refuses, vtgate would
// refuse; a word that it loses is a lock or an index that the server would not hear of.
func TestGrammar(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "statements")
	server := pipelinetest.OwnMySQL(t, "--general-log=ON", "--general-log-file="+log)
	goTest(t, server.Addr(), speakers...)
	parser, err := sqlparser.New(sqlparser.Options{})
	pipelinetest.Must(t, err)
	all, kinds := statements(t, log)
	for kind, text := range all {
		if left.MatchString(text) {
			continue
		}
		if err := heard(parser, text); err != nil {
			t.Errorf("%v\nin %s", err, kind)
		}
	}
	if kinds < 300 {
		t.Errorf("only %d kinds of statements were recorded", kinds)
	}
}

// heard reports what of a statement does not reach the server.
func heard(parser *sqlparser.Parser, text string) error {
	parsed, err := parser.Parse(text)
	if err != nil {
		return fmt.Errorf("refused: %w", err)
	}
	sent := sqlparser.String(parsed)
	if _, err := parser.Parse(sent); err != nil {
		return fmt.Errorf("refused as it is sent, %s: %w", sent, err)
	}
	for _, word := range []string{"force index", "straight_join", "skip locked", "for update", "share mode", "nowait"} {
		if had, has := strings.Count(kindOf(text), word), strings.Count(kindOf(sent), word); had != has {
			return fmt.Errorf("%q is there %d times, and sent %d times: %s", word, had, has, sent)
		}
	}
	if sent = kindOf(sent); strings.HasPrefix(sent, "delete from ") && strings.Contains(sent, " index (") {
		return fmt.Errorf("a DELETE of one table takes no index: %s", sent)
	}
	return nil
}

// TestHeard takes from statements what they need on Vitess.
func TestHeard(t *testing.T) {
	t.Parallel()
	parser, err := sqlparser.New(sqlparser.Options{})
	pipelinetest.Must(t, err)
	for text, want := range map[string]bool{
		"DELETE t FROM (t FORCE INDEX (PRIMARY)) WHERE id IN (1, 2)": true,
		"DELETE t FROM t FORCE INDEX (PRIMARY) WHERE id IN (1, 2)":   false,
		"SELECT 1 FROM t FOR UPDATE SKIP LOCKED":                     true,
		"SELECT 1 FROM t FOR UPDATE OF t SKIP LOCKED":                false,
		"COMMIT AND CHAIN": false,
	} {
		if err := heard(parser, text); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// entry begins a statement in the server's log: a time, the number of a session, and a command.
var entry = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\S+\s+\d+ (\w+(?: \w+)?)\t`)

// statements reads the log, and returns one statement of each kind, by its kind.
func statements(t *testing.T, log string) (map[string]string, int) {
	t.Helper()
	file, err := os.Open(log)
	pipelinetest.Must(t, err)
	defer func() { _ = file.Close() }()
	all := map[string]string{}
	var text strings.Builder
	end := func() {
		if text.Len() > 0 {
			all[kindOf(text.String())] = text.String()
		}
		text.Reset()
	}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		line := lines.Text()
		head := entry.FindStringSubmatch(line)
		switch {
		case head == nil && text.Len() > 0: // a further line of the statement
			text.WriteString("\n" + line)
		case head == nil: // the log's own head
		default:
			end()
			if head[1] == "Query" || head[1] == "Execute" {
				text.WriteString(line[len(head[0]):])
			}
		}
	}
	end()
	pipelinetest.Must(t, lines.Err())
	return all, len(all)
}

var (
	literals = regexp.MustCompile(`(?s)(?:_binary)?'(?:[^'\\]|\\.|'')*'|\b\d+\b|\?`)
	lists    = regexp.MustCompile(`\?(?:, ?\?)+`)
	rows     = regexp.MustCompile(`\(\?\)(?:, ?\(\?\))+`)
	names    = regexp.MustCompile(`\b(?:t_[a-z0-9]{16}|lent_\?|lent_\d+)\b`)
	spaces   = regexp.MustCompile(`\s+`)
)

// kindOf is a statement in small letters without its values, and without the lengths of its lists.
func kindOf(text string) string {
	text = names.ReplaceAllString(literals.ReplaceAllString(text, "?"), "schema")
	return strings.ToLower(spaces.ReplaceAllString(rows.ReplaceAllString(lists.ReplaceAllString(text, "?"), "(?)"), " "))
}
