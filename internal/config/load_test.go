package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/pkg/task"
)

const shippedFile = "../../configs/duetime.yaml"

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "duetime.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaultIsValid(t *testing.T) {
	t.Parallel()
	if err := config.Default().Validate(); err != nil {
		t.Fatal(err)
	}
}

func TestShippedFileIsTheDefault(t *testing.T) {
	t.Parallel()
	game, console := pet.DefaultSettings(), config.DefaultConsole()
	push, api := config.DefaultDeliver(), config.DefaultAPI()
	sections := []config.Section{game, console, push, api}
	got, err := config.Load(shippedFile, true, nil, sections...)
	if err != nil {
		t.Fatal(err)
	}
	diff := cmp.Diff(config.Default(), got) + cmp.Diff(pet.DefaultSettings(), game) + cmp.Diff(config.DefaultConsole(), console) +
		cmp.Diff(config.DefaultDeliver(), push) + cmp.Diff(config.DefaultAPI(), api)
	if diff != "" {
		t.Errorf("configs/duetime.yaml differs from the defaults (-want +got):\n%s", diff)
	}
	data, err := os.ReadFile(shippedFile)
	if err != nil {
		t.Fatal(err)
	}
	// Without a key's line the file would still equal the defaults, so the test searches for the line itself.
	for _, key := range config.Keys(sections...) {
		name := key[strings.LastIndexByte(key, '.')+1:] + ":"
		has := func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), name) }
		if !slices.ContainsFunc(strings.Split(string(data), "\n"), has) {
			t.Errorf("configs/duetime.yaml does not show %s", key)
		}
	}
}

func TestMissingFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "none.yaml")
	got, err := config.Load(path, false, []string{"DUETIME_SHARDS=3"})
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Shards = 3
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("default path missing (-want +got):\n%s", diff)
	}
	if _, err := config.Load(path, true, nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("explicit path missing: got %v, want an error that names %s", err, path)
	}
}

func TestEnvironmentOverFileOverDefault(t *testing.T) {
	t.Parallel()
	path := writeFile(t, `
namespace: file
queues: [a, b, c]
redis: {addrs: ["r:1"], password: "123"}
kafka:
  brokers: ["f:1", "f:2", "f:3"]
worker: {admin: 9000, queues: [b]}
daemon: {admin: ":9001", lookahead: 0, retention: 1h30m}
mysql: # all of its keys are comments
`)
	game, wantGame := pet.DefaultSettings(), pet.DefaultSettings()
	got, err := config.Load(path, true, []string{
		"DUETIME_NAMESPACE=env", "DUETIME_KAFKA__BROKERS=a:1, b:2", "DUETIME_GAME__START__FOOD=7",
		"DUETIME_WORKER__HANDLER_TIMEOUT=1m", "DUETIME_WORKER__DRAIN=90s", "DUETIME_MYSQL__DSN=u:p@tcp(db:1)/game?x=y=z", "DUETIME_EVENT__ADMIN=9002",
		"DUETIME_WORKER__QUEUES= ", "DUETIME_PORT=tcp://127.0.0.1:1", "DUETIME_SERVICE_HOST=1", "OTHER__X=1", "DUETIME_X", "DUETIME_TEST_SQL=mysql8",
		"DUETIME_PORT_9090_TCP_ADDR=10.0.0.1", "DUETIME_MYSQL_SERVICE_PORT=3306", "DUETIME_EVENT_PORT=tcp://10.0.0.1:9090",
		"DUETIME_GAME_SERVICE_PORT_HTTP=8080", "DUETIME_SHARD_SERVICE_HOST=10.0.0.1", "DUETIME_HOME=/opt", "DUETIME_CONFIG=x", "DUETIME_=x",
	}, game)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Namespace = "env"
	want.Queues = []string{"a", "b", "c"}
	want.Redis.Addrs, want.Redis.Password = []string{"r:1"}, "123"
	want.Kafka.Brokers = []string{"a:1", "b:2"}
	wantGame.Start.Food = 7
	want.Worker.HandlerTimeout, want.Worker.Admin = time.Minute, "127.0.0.1:9000"
	want.Worker.Drain = 90 * time.Second
	want.Daemon.Admin, want.Daemon.Lookahead, want.Daemon.Retention = "127.0.0.1:9001", 0, 90*time.Minute
	want.MySQL.DSN, want.Event.Admin = "u:p@tcp(db:1)/game?x=y=z", "127.0.0.1:9002"
	if diff := cmp.Diff(want, got) + cmp.Diff(wantGame, game); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFileErrorsNameTheKey(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"mysql: {dns: x}":                     `unknown key "mysql.dns", did you mean "mysql.dsn"?`,
		"mysqll: {dsn: x}":                    `unknown key "mysqll", did you mean "mysql"?`,
		"Namespace: x":                        `unknown key "Namespace", did you mean "namespace"?`,
		"worker: {handlerTimeout: 1s}":        `did you mean "worker.handler_timeout"?`,
		"worker: {handler-timeout: 1s}":       `did you mean "worker.handler_timeout"?`,
		"handler_timeout: 1s":                 `did you mean "worker.handler_timeout"?`,
		"queue: [a]":                          `did you mean "queues"?`,
		"game: {start: {foods: 1}}":           `unknown key "game.start.foods"`,
		"1: x":                                `unknown key "1"`,
		`"": x`:                               `unknown key ""`,
		"mysql.dsn: x":                        "mysql.dsn: write it as nested",
		"mysql: x":                            "mysql: must be a section",
		"- a":                                 "the file: must be a section, not a list",
		"namespace:":                          "namespace: must be a text (in quotes), not empty",
		"namespace: 12":                       "namespace: must be a text (in quotes), not a number",
		"trace: {sample: half}":               "trace.sample: must be a number",
		"log: {level: true}":                  "log.level: must be a text",
		"redis: {username: 2024-01-01}":       "redis.username: must be a text (in quotes), not a date",
		"shards: '16'":                        "shards: must be a whole number, not a text",
		"shards: 1.5":                         "shards: must be a whole number, not a number",
		"shards: 99999999999999999999":        "shards: must be a whole number",
		"event: {lead: 50}":                   "event.lead: must be a duration with its unit",
		"event: {lead: 50x}":                  "event.lead: must be a duration",
		"queues: default":                     "queues: must be a list, not a text",
		"daemon: {retention_by_kind: [ping]}": "daemon.retention_by_kind: must be a section of kinds and durations, such as {session.ping: 1h}, not a list",
		"daemon: {retention_by_kind: {ping: 90}}": "daemon.retention_by_kind: ping must be a duration with its unit, such as 50ms or 2h, not a number",
		"daemon: {retention_by_kind: {ping: 1d}}": `daemon.retention_by_kind: ping must be a duration such as 50ms or 2h, not "1d"`,
		"daemon: {retention_by_kind: {ping: 0}}":  "daemon.retention_by_kind: ping: 0s is below the limit 1m",
		"queues: [a, 1]":                          "queues: item 2 must be a text",
		"kafka: {brokers: {a: 1}}":                "kafka.brokers: must be a list, not a section",
		"queues: [{nam: a}]":                      `queues: item 1 has the unknown key "nam"`,
		"queues: [a, {name: 2}]":                  "queues: item 2 has a name that must be a text",
		"queues: [{name: a, rate: 20}]":           "queues: item 1 has a rate that must be a text such as 200/s",
		"queues: [{name: a, rate: 20/d}]":         "queues: item 1 has a wrong rate: rate must be 1 to 1000000 a second, minute or hour",
		"queues: [{name: a, rate: 0/s}]":          "queues: item 1 has a wrong rate",
		"queues: [{name: a, concurrency: 0}]":     "queues: item 1 has a concurrency that must be a whole number, 1 to 10000",
		"queues: [{rate: 1/s}]":                   `queues: "" is not 1 to 64 letters`,
		"queues: [{name: a, concurrency: 10001}]": `queues: "a": concurrency must be 0 (no bound) to 10000`,
		"shards: 1\nshards: 2":                    "already defined",
		"shards: 1\n---\nshards: 2":               "more than one YAML document",
		"shards: [":                               "yaml",
		"shards: x\nbogus: 1\nevent: {x: 1}":      `unknown key "bogus"; unknown key "event.x"; shards: must`,
		"zookeeper: {servers: []}":                "zookeeper.servers: needs at least one",
	} {
		_, err := config.Load(writeFile(t, text), true, nil, pet.DefaultSettings())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v, want one line with %s", text, err, want)
		}
	}
}

func TestEnvironmentErrorsNameTheVariable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"DUETIME_MYSQL__DNS=x":              "unknown environment variable DUETIME_MYSQL__DNS, did you mean DUETIME_MYSQL__DSN?",
		"DUETIME_mysql__dsn=x":              "unknown environment variable DUETIME_mysql__dsn, did you mean DUETIME_MYSQL__DSN?",
		"duetime_shards=3":                  "unknown environment variable duetime_shards, did you mean DUETIME_SHARDS?",
		"DUETIME_MYSQL_DSN=x":               "unknown environment variable DUETIME_MYSQL_DSN, did you mean DUETIME_MYSQL__DSN?",
		"DUETIME_MYSQL.DSN=x":               "DUETIME_MYSQL__DSN",
		"DUETIME_MYSQLDSN=x":                "DUETIME_MYSQL__DSN",
		"DUETIME_MYSQL_DNS=x":               "DUETIME_MYSQL__DSN",
		"DUETIME_KAFKA_BROKERS=a:1":         "DUETIME_KAFKA__BROKERS",
		"DUETIME_KAFKA_BROKER=a:1":          "DUETIME_KAFKA__BROKERS",
		"DUETIME_GAME_START_FOOD=1":         "DUETIME_GAME__START__FOOD",
		"DUETIME_HANDLER_TIMEOUT__=1":       "unknown environment variable DUETIME_HANDLER_TIMEOUT__",
		"DUETIME_WORKER__HANDLERTIMEOUT=1s": "DUETIME_WORKER__HANDLER_TIMEOUT",
		"DUETIME_SHARD=3":                   "did you mean DUETIME_SHARDS?",
		"DUETIME_NAMSPACE=x":                "did you mean DUETIME_NAMESPACE?",
		"DUETIME_QUEUES=a,b":                "environment variable DUETIME_QUEUES: queues can be set in the file only",
		"DUETIME_QUEUE=a":                   "environment variable DUETIME_QUEUE: queues can be set in the file only",
		"DUETIME___=x":                      "unknown environment variable DUETIME___",
		"DUETIME_GAME__START=x":             "unknown environment variable DUETIME_GAME__START",
		"DUETIME__QUEUES=x":                 "environment variable DUETIME__QUEUES: queues can be set in the file only",
		"DUETIME__NAMESPACE=x":              "unknown environment variable DUETIME__NAMESPACE, did you mean DUETIME_NAMESPACE?",
		"DUETIME_SHARDS=many":               `DUETIME_SHARDS: must be a whole number, not "many"`,
		"DUETIME_SHARDS=":                   "DUETIME_SHARDS: must be a whole number",
		"DUETIME_EVENT__LEAD=50":            "DUETIME_EVENT__LEAD: must be a duration",
		"DUETIME_KAFKA__BROKERS=":           "kafka.brokers:",
		"DUETIME_KAFKA__BROKERS=a:1,":       "kafka.brokers:",
		"DUETIME_NAMESPACE={x}":             "namespace:",
	} {
		_, err := config.Load("none.yaml", false, []string{text}, pet.DefaultSettings())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// A process that has not registered a program's section must accept the file and the environment that it shares with the
// program.
func TestSectionOfAnotherProgramIsLeftAlone(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "shards: 3\ngame: {meal: 1h, anything: [1, {a: b}]}\n")
	got, err := config.Load(path, true, []string{"DUETIME_GAME__START__FOOD=7", "DUETIME_GAME__ANYTHING=x", "DUETIME_NAMESPACE=shop"})
	want := config.Default()
	want.Shards, want.Namespace = 3, "shop"
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
	if _, err := config.Load(path, true, nil, pet.DefaultSettings()); err == nil || !strings.Contains(err.Error(), `unknown key "game.anything"`) {
		t.Errorf("its own program: %v", err)
	}
	for text, says := range map[string]string{"game: 7": "game: must be a section", "gama: {meal: 1h}": `did you mean "game"?`, "shop: {a: 1}": `unknown key "shop"`} {
		if _, err := config.Load(writeFile(t, text), true, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %s", text, err, says)
		}
	}
}

func TestQueuesWithLimits(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "queues: [default, {name: mails, rate: 200/s}, {name: reports, concurrency: 2, rate: 50/m}, {name: plain}, {name: calls, owner_rate: 5/s}]")
	c, err := config.Load(file, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]task.Limit{
		"mails":   {Rate: task.Rate{Calls: 200, Per: time.Second}},
		"reports": {Rate: task.Rate{Calls: 50, Per: time.Minute}, Concurrency: 2},
		"calls":   {OwnerRate: task.Rate{Calls: 5, Per: time.Second}},
	}
	if diff := cmp.Diff([]string{"default", "mails", "reports", "plain", "calls"}, c.Queues) + cmp.Diff(want, c.Limits); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text := "queues: [default, {name: mails, rate: 200/s}, {name: reports, rate: 50/m, concurrency: 2}, plain, {name: calls, owner_rate: 5/s}]"
	if !strings.Contains(c.String(), text) {
		t.Errorf("it is printed as %s", c)
	}
	c.Limits["gone"] = task.Limit{Concurrency: 1}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), `queues: "gone" has a limit, but is not among them`) {
		t.Errorf("a limit of an unknown queue: %v", err)
	}
}
