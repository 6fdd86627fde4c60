package pipelinetest

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Deployment says where the servers of our processes are. Its methods run our commands on them, built as a release is.
type Deployment struct {
	DSN, Redis, ZooKeeper, Kafka, Namespace string

	Config   string                     // the configuration file of every process; empty: none
	Rules    []string                   // further NAME=value of every process
	Secured  *Secured                   // nil: links in plain text, and no users
	Environ  func(user string) []string // of the process of a user, in place of ours; nil: ours
	Previous bool                       // run the commands as they were before the newest migration
}

// SharedDeployment is one of its own on the servers that the tests of this process share, migrated.
func SharedDeployment(t testing.TB) Deployment {
	t.Helper()
	d := Deployment{
		DSN: MySQL(t).NewSchema(t), Redis: Redis(t).Addr(), ZooKeeper: ZooKeeper(t).Addr(), Kafka: Kafka(t).Addr(),
		Namespace: Namespace(t), Rules: []string{"DUETIME_KAFKA__PARTITIONS=4"},
	}
	d.Migrate(t)
	return d
}

// EnvOf is Env for the process of a user, whose own wins over what every process has.
func (d Deployment) EnvOf(user string, more ...string) []string {
	switch {
	case d.Environ != nil:
		return append(d.Environ(user), more...)
	case d.Secured == nil:
		return d.Env(more...)
	}
	return d.Env(append(d.Secured.env(d, user), more...)...)
}

// Env configures a process, with further NAME=value that win.
func (d Deployment) Env(more ...string) []string {
	env := []string{
		"DUETIME_NAMESPACE=" + d.Namespace, "DUETIME_MYSQL__DSN=" + d.DSN, "DUETIME_REDIS__ADDRS=" + d.Redis,
		"DUETIME_ZOOKEEPER__SERVERS=" + d.ZooKeeper, "DUETIME_KAFKA__BROKERS=" + d.Kafka, "DUETIME_GAME__LISTEN=127.0.0.1:0",
		"DUETIME_EVENT__ADMIN=127.0.0.1:0", "DUETIME_WORKER__ADMIN=127.0.0.1:0",
		"DUETIME_DAEMON__ADMIN=127.0.0.1:0", "DUETIME_GAME__ADMIN=127.0.0.1:0",
	}
	if !d.Previous { // which refuses settings that it doesn't know
		env = append(env, "DUETIME_API__LISTEN=127.0.0.1:0", "DUETIME_API__ADMIN=127.0.0.1:0")
	}
	return append(append(env, d.Rules...), more...)
}

// Migrate makes the tables and the topics, and the users with their rights where there are any.
func (d Deployment) Migrate(t testing.TB) {
	t.Helper()
	if d.Secured != nil {
		d.Secured.run(t, d, "mysql/users.sql")
	}
	if code, out := d.Duetime(t, "migrate", "up"); code != 0 {
		t.Fatalf("migrate up: exit code %d, said %s", code, out)
	}
	if d.Secured != nil {
		d.Secured.run(t, d, "mysql/grants.sql")
	}
}

// Duetime runs the operator's tool to its end, and returns its exit code and what it wrote to stdout.
func (d Deployment) Duetime(t testing.TB, args ...string) (int, string) {
	t.Helper()
	code, out, _ := d.Tool(t, args...)
	return code, out
}

// Tool is Duetime that also returns what the tool wrote to stderr.
func (d Deployment) Tool(t testing.TB, args ...string) (code int, out, complaint string) {
	t.Helper()
	user := "operator"
	if args[0] == "migrate" {
		user = "migrate"
	}
	tool := Run(t, d.command(t, "duetime"), d.EnvOf(user), append(slices.Clone(args), d.Args()...)...)
	code = tool.Wait(t, 5*time.Minute) // with a million tasks verify takes a while
	return code, tool.Stdout(), strings.Join(tool.Lines(), "\n")
}

// Verified is what duetime verify --json answers.
type Verified struct {
	Pending, Done, Cancelled, Dead, Overdue, Missing, Extra, Stuck, Premature, Invalid, Lost, Duplicate, Early int64
}

// Verify runs duetime verify and returns its exit code too.
func (d Deployment) Verify(t testing.TB) (int, Verified) {
	t.Helper()
	code, out := d.Duetime(t, "verify", "--json")
	var v Verified
	if code != 2 {
		Must(t, json.Unmarshal([]byte(out), &v))
	}
	return code, v
}

// Args are the arguments of every process.
func (d Deployment) Args() []string {
	if d.Config == "" {
		return nil
	}
	return []string{"--config", d.Config}
}

// App is one of our commands at work.
type App struct {
	*Proc

	Name string
}

// Start runs a command of ours: event, worker, daemon or game.
func (d Deployment) Start(t testing.TB, name string, more ...string) App {
	t.Helper()
	return App{Run(t, d.command(t, name), d.EnvOf(name, more...), d.Args()...), name}
}

// Ready runs a command and waits until it says that it does its work.
func (d Deployment) Ready(t testing.TB, name string, more ...string) App {
	t.Helper()
	app := d.Start(t, name, more...)
	app.WaitReady(t)
	return app
}

// Console runs the command duetime console until the test's end, and returns the address of its pages.
func (d Deployment) Console(t testing.TB, more ...string) string {
	t.Helper()
	_, address := d.RunConsole(t, more...)
	return address
}

// RunConsole is Console that also returns the process.
func (d Deployment) RunConsole(t testing.TB, more ...string) (app App, address string) {
	t.Helper()
	tool := Run(t, d.command(t, "duetime"), d.EnvOf("operator", more...), append([]string{"console", "--listen", "127.0.0.1:0"}, d.Args()...)...)
	_, at, _ := strings.Cut(tool.WaitLine(t, "the console is at "), "the console is at ")
	address, _, _ = strings.Cut(at, " ")
	return App{tool, "console"}, address
}

// URL returns where the process serves what ("admin", "game").
func (a App) URL(t testing.TB, what string) string {
	t.Helper()
	var line struct{ Addr string }
	Must(t, json.Unmarshal([]byte(a.WaitLine(t, `"msg":"listening","what":"`+what+`"`)), &line))
	return "http://" + line.Addr
}

// Get asks the process's own HTTP server. A connection for each request leaves nothing behind.
func (a App) Get(t testing.TB, path string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.URL(t, "admin")+path, http.NoBody)
	Must(t, err)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	Must(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	Must(t, err)
	return res.StatusCode, string(text)
}

// Metric sums the samples whose name and labels begin so.
func (a App) Metric(t testing.TB, prefix string) float64 {
	t.Helper()
	sum := 0.0
	for line := range strings.Lines(a.Metrics(t)) {
		if strings.HasPrefix(line, prefix) {
			fields := strings.Fields(line)
			n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			Must(t, err)
			sum += n
		}
	}
	return sum
}

// Metrics returns what the process shows, without the label that all its metrics share.
func (a App) Metrics(t testing.TB) string {
	t.Helper()
	_, text := a.Get(t, "/metrics")
	return unshared.ReplaceAllString(first.ReplaceAllString(among.ReplaceAllString(text, "$1"), "$1{"), "$1 ")
}

// The label namespace in a line of metrics: by itself, first, or after others.
var (
	unshared = regexp.MustCompile(`(?m)^(duetime_\w+)\{namespace="[^"]*"\} `)
	first    = regexp.MustCompile(`(?m)^(duetime_\w+)\{namespace="[^"]*",`)
	among    = regexp.MustCompile(`(?m)^(duetime_\w+\{.+),namespace="[^"]*"`)
)

// Leads reports whether the event process says that it leads.
func (a App) Leads(t testing.TB) bool { t.Helper(); return a.Metric(t, "duetime_leader ") == 1 }

// Says counts the log lines that contain text.
func (a App) Says(text string) int {
	n := 0
	for _, line := range a.Lines() {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// Stop ends the process as an orchestrator does, and fails the test unless it exits 0 within 10 s. It returns how long
// that took.
func (a App) Stop(t testing.TB) time.Duration {
	t.Helper()
	began := time.Now()
	Must(t, a.Term())
	code := a.Wait(t, time.Minute)
	took := time.Since(began)
	if code != 0 || took > 10*time.Second {
		t.Errorf("%s: exit code %d after %v from SIGTERM, want 0 within 10s", a.Name, code, took)
	}
	return took
}
