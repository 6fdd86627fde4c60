package e2e_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const root = "../../.."

// documentedKeys are those of the table in docs/OBSERVING.md.
func documentedKeys(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/OBSERVING.md")
	pipelinetest.Must(t, err)
	_, table, _ := strings.Cut(string(text), "<!-- log keys")
	table, _, _ = strings.Cut(table, "<!-- end of log keys")
	var keys []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(table, -1) {
		keys = append(keys, m[1])
	}
	if len(keys) < 10 {
		t.Fatalf("only the keys %v are documented", keys)
	}
	return keys
}

// firstKey gives, for the methods of a logger, at which argument the keys and values begin.
var firstKey = map[string]int{
	"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "With": 0,
	"DebugContext": 2, "InfoContext": 2, "WarnContext": 2, "ErrorContext": 2, "Log": 3,
}

// TestLogKeysAreDocumented reads the code: each key of each line is a literal, and stands in the table.
func TestLogKeysAreDocumented(t *testing.T) {
	t.Parallel()
	allowed := documentedKeys(t)
	found := 0
	for _, dir := range []string{"internal", "pkg", "cmd", "duetime.go"} {
		pipelinetest.Must(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.Contains(path, "internal/test/") ||
				strings.HasSuffix(path, "internal/config/print.go") { // how a whole configuration would look: no line has one
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, 0)
			pipelinetest.Must(t, err)
			for _, key := range keysIn(file) {
				found++
				if !slices.Contains(allowed, key) {
					t.Errorf("%s logs under the key %q, which docs/OBSERVING.md doesn't have", path, key)
				}
			}
			return nil
		}))
	}
	if found < 80 {
		t.Errorf("only %d keys found in the code", found)
	}
}

// keysIn returns the keys of all log lines of a file; what is no literal where a key must be comes as "not a literal".
func keysIn(file *ast.File) []string {
	var keys []string
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if isAttr(call) {
			keys = append(keys, literal(call.Args[0]))
			return true
		}
		if at, logs := firstKey[method.Sel.Name]; logs && len(call.Args) > at && (at == 0 || literal(call.Args[at-1]) != "") {
			keys = append(keys, pairs(call.Args[at:], at == 0)...)
		}
		return true
	})
	return keys
}

// pairs reads keys and values. With is the name of others' functions too: there only literals count.
func pairs(args []ast.Expr, with bool) []string {
	var keys []string
	for i := 0; i < len(args); i++ {
		if inner, ok := args[i].(*ast.CallExpr); ok && isAttr(inner) {
			continue // met by itself
		}
		key := literal(args[i])
		if key == "" {
			if with {
				return keys
			}
			key = "not a literal"
		}
		keys = append(keys, key)
		i++ // its value
	}
	return keys
}

// isAttr tells slog.String("key", …) and its like.
func isAttr(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) != 2 {
		return false
	}
	of, ok := method.X.(*ast.Ident)
	return ok && of.Name == "slog" && slices.Contains([]string{
		"Any", "Bool", "Duration", "Float64", "Int", "Int64", "String", "Time", "Uint64",
	}, method.Sel.Name)
}

// literal is a text that stands there as such; empty for any other expression.
func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		s, _ := strconv.Unquote(l.Value)
		return s
	}
	return ""
}

// TestLogsHoldNoSecretAndNoPayload runs all processes at level debug through failures, with passwords and payloads that are
// known when they are met in a line.
func TestLogsHoldNoSecretAndNoPayload(t *testing.T) {
	t.Parallel()
	const password, payload = "Tr0ub4dor", "payload-that-nobody-may-read"
	p, mysql, redis := guardedDeployment(t, password)
	var procs []pipelinetest.App
	for _, name := range commands {
		procs = append(procs, p.Ready(t, name, "DUETIME_GAME__MEAL=200ms", "DUETIME_LOG__LEVEL=debug"))
	}
	worker, game := procs[1], procs[3]
	play(t, game.URL(t, "game"), "ann")
	db, err := sql.Open("mysql", p.DSN)
	pipelinetest.Must(t, err)
	defer func() { _ = db.Close() }()
	for kind, text := range map[string]string{"pet.meal_finished": `"` + payload + `"`, "nobody.knows": `{"secret": "` + payload + `"}`} {
		insertRow(t, db, kind, text)
	}
	garble(t, p, payload)
	pipelinetest.Must(t, redis.Restart())
	pipelinetest.Must(t, mysql.Restart())
	play(t, game.URL(t, "game"), "bob")
	for _, settled := range []string{
		`duetime_tasks_settled_total{kind="pet.meal_finished",result="dead"}`, `duetime_tasks_settled_total{kind="unknown",result="unknown_kind"}`,
		`duetime_stream_undecodable_total{what="queue"}`,
	} {
		pipelinetest.Await(t, settled, func() bool { return worker.Metric(t, settled) > 0 })
	}
	refused := p.Start(t, "event", "DUETIME_REDIS__PASSWORD=wrong-"+password)
	refused.Wait(t, time.Minute)
	allowed := append(documentedKeys(t), "time", "level", "msg")
	for _, proc := range procs {
		proc.Stop(t)
	}
	for _, proc := range append(procs, refused) {
		wantLines(t, proc, allowed, password, payload)
	}
}

// wantLines wants each line to be an object with allowed keys alone, and none to hold one of the texts.
func wantLines(t *testing.T, proc pipelinetest.App, allowed []string, secrets ...string) {
	t.Helper()
	for _, line := range proc.Lines() {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Errorf("%s logs what is no JSON: %s", proc.Name, line)
		}
		for key := range fields {
			if !slices.Contains(allowed, key) {
				t.Errorf("%s logs under the key %q: %s", proc.Name, key, line)
			}
		}
		for _, secret := range secrets {
			if strings.Contains(line, secret) {
				t.Errorf("%s logs %s: %s", proc.Name, secret, line)
			}
		}
	}
	if len(proc.Lines()) == 0 {
		t.Errorf("%s has logged nothing", proc.Name)
	}
}

// guardedDeployment has servers that ask for a password.
func guardedDeployment(t *testing.T, password string) (pipelinetest.Deployment, *pipelinetest.MySQLServer, *pipelinetest.RedisServer) {
	t.Helper()
	mysql, redis := pipelinetest.OwnMySQL(t), pipelinetest.OwnRedis(t, "--requirepass", password)
	dsn := mysql.NewSchema(t)
	db, err := sql.Open("mysql", dsn)
	pipelinetest.Must(t, err)
	defer func() { _ = db.Close() }()
	for _, statement := range []string{"CREATE USER app@'%' IDENTIFIED BY '" + password + "'", "GRANT ALL ON *.* TO app@'%'"} {
		_, err = db.ExecContext(t.Context(), statement)
		pipelinetest.Must(t, err)
	}
	p := pipelinetest.Deployment{
		DSN: strings.Replace(dsn, "root@", "app:"+password+"@", 1), Redis: redis.Addr(), Namespace: pipelinetest.Namespace(t),
		ZooKeeper: pipelinetest.ZooKeeper(t).Addr(), Kafka: pipelinetest.Kafka(t).Addr(),
		Rules: []string{"DUETIME_KAFKA__PARTITIONS=4", "DUETIME_REDIS__PASSWORD=" + password},
	}
	p.Migrate(t)
	return p, mysql, redis
}

// insertRow writes a task that is due now, as a service in another language would.
func insertRow(t *testing.T, db *sql.DB, kind, payload string) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), `INSERT INTO duetime_tasks
		(id, kind, owner, queue, shard, due_at, run_at, max_attempts, payload, created_at, updated_at)
		SELECT UNHEX(REPLACE(UUID(), '-', '')), ?, 'ann', 'default', CRC32('ann') MOD shards, now, now, 1, ?, now, now
		FROM duetime_layout, (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 AS now) t`, kind, payload)
	pipelinetest.Must(t, err)
}

// garble puts a message that is no hint into the queue's topic, and one that is no compensation into the daemon's.
func garble(t *testing.T, p pipelinetest.Deployment, text string) {
	t.Helper()
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	for _, topic := range []string{p.Namespace + ".q.default", p.Namespace + ".compensate"} {
		w := &kafka.Writer{Addr: kafka.TCP(p.Kafka), Topic: topic, Transport: transport, RequiredAcks: kafka.RequireAll}
		pipelinetest.Must(t, w.WriteMessages(context.WithoutCancel(t.Context()), kafka.Message{Value: []byte(text)}))
		pipelinetest.Must(t, w.Close())
	}
}
