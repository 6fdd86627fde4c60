package deploy_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // for rows that no service makes

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// drill is the overlay production at work: on servers of its own that take the users of this folder alone, over TLS, each
// process has the environment and the certificates of its pod.
type drill struct {
	pipelinetest.Deployment

	servers *pipelinetest.SecuredServers
	overlay *cluster
	certs   string // a folder with all of Secret tls
	apps    map[string]pipelinetest.App
	dead    []string // ids of dead tasks
	waiting []string // ids of pending tasks
}

// rules are what this machine changes: ports of pods that share it, one broker, and a meal that nobody waits for.
var rules = []string{
	"DUETIME_EVENT__ADMIN=127.0.0.1:0", "DUETIME_WORKER__ADMIN=127.0.0.1:0", "DUETIME_DAEMON__ADMIN=127.0.0.1:0",
	"DUETIME_GAME__ADMIN=127.0.0.1:0", "DUETIME_GAME__LISTEN=127.0.0.1:0",
	"DUETIME_API__ADMIN=127.0.0.1:0", "DUETIME_API__LISTEN=127.0.0.1:0", "DUETIME_KAFKA__REPLICATION=1", "DUETIME_GAME__MEAL=1s",
}

func newDrill(t *testing.T) *drill {
	t.Helper()
	servers := pipelinetest.OwnSecuredServers(t, namespace)
	d := &drill{Deployment: servers.Deploy(t), servers: servers, overlay: built(t, "production"), certs: t.TempDir(), apps: map[string]pipelinetest.App{}}
	servers.WriteTLS(t, d.certs)
	d.DSN = "root@tcp(" + servers.MySQL.Addr() + ")/" + namespace
	d.overlay.secrets = readSecrets(t, servers.Filled(t, "k8s/secrets.yaml", map[string]string{
		"MYSQL": mysqlAddress, "SCHEMA": namespace, "CONSOLE_USERS": consoleUser, "API_TOKENS": apiTokens,
	}))
	d.Config = filepath.Join(d.overlay.mounted(t, d.podOf("event")), "duetime.yaml")
	environs := map[string][]string{}
	for _, user := range pipelinetest.Users {
		environs[user] = d.environ(t, user)
	}
	d.Environ = func(user string) []string { return environs[user] }
	return d
}

// podOf returns the pod of a user. The game is a service, which is like a worker, with the Secret of its own name.
func (d *drill) podOf(user string) pod {
	switch user {
	case "migrate":
		return pod{d.overlay.jobs[user].Spec.Template, user}
	case "operator":
		return pod{d.overlay.deployments["console"].Spec.Template, "console"}
	case "game":
		p := pod{*d.overlay.deployments["worker"].Spec.Template.DeepCopy(), user}
		p.container().EnvFrom[1].SecretRef.Name = user
		return p
	}
	return pod{d.overlay.deployments[user].Spec.Template, user}
}

// environ is the environment of the user's pod, with this machine's servers and folders in place of the cluster's.
func (d *drill) environ(t *testing.T, user string) []string {
	t.Helper()
	p, certs := d.podOf(user), t.TempDir()
	for _, name := range certificatesOf(t, p) {
		pipelinetest.Must(t, os.Link(filepath.Join(d.certs, name), filepath.Join(certs, name)))
	}
	here := strings.NewReplacer(
		mysqlAddress, d.servers.MySQL.Addr(), "redis.data.svc:6379", d.servers.Redis.Addr(), "kafka.data.svc:9092", d.Kafka,
		"zookeeper.data.svc:2181", d.ZooKeeper, "/tls/", certs+"/",
	)
	env := pairs(d.overlay.environ(t, p))
	for i, entry := range env {
		env[i] = here.Replace(entry)
	}
	return append(env, rules...)
}

// TestDrill runs the overlay production with the users, rights and certificates of this folder, and types the runbooks'
// commands: nothing and nobody is refused.
func TestDrill(t *testing.T) {
	t.Parallel()
	d := newDrill(t)
	d.Migrate(t)
	for _, name := range []string{"event", "daemon", "worker", "game", "api"} {
		d.apps[name] = d.Ready(t, name)
	}
	console, url := d.RunConsole(t)
	d.apps["console"] = console
	t.Run("effects", d.play)
	t.Run("api", d.callAPI)
	t.Run("connections", d.countConnections)
	t.Run("migrate once more", func(t *testing.T) { d.typed(t, "duetime migrate up") })
	t.Run("console", func(t *testing.T) {
		for login, want := range map[string]int{"": http.StatusUnauthorized, "ann:wrong": http.StatusUnauthorized, "ann:correct-horse": http.StatusOK} {
			if got, _ := get(t, url+"system", login); got != want {
				t.Errorf("signed in as %q: status %d, want %d", login, got, want)
			}
		}
	})
	t.Run("runbooks", d.typeRunbooks)
	t.Run("verify", func(t *testing.T) {
		pipelinetest.Await(t, "the audit to find nothing", func() bool {
			code, out := d.Duetime(t, "verify")
			return code == 0 && !strings.Contains(out, "not checked")
		})
	})
	for name, app := range d.apps {
		app.Stop(t)
		for _, line := range app.Lines() {
			wantAllowed(t, name, line)
			for _, user := range append(pipelinetest.Users, "zookeeper") {
				if strings.Contains(line, d.Secured.Password(user)) {
					t.Errorf("%s says the password of %s", name, user)
				}
			}
		}
	}
}

// refusals are what a server, or a log, says of a right that is missing.
var refusals = []string{"NOPERM", "WRONGPASS", "NOAUTH", "denied", "Authorization", "uthentication", "not authenticated", "x509"}

func wantAllowed(t *testing.T, who, said string) {
	t.Helper()
	for _, word := range refusals {
		if strings.Contains(said, word) {
			t.Errorf("%s: %s", who, said)
		}
	}
}

// play has a pet eat: its meal is scheduled by the game, and ended by the worker.
func (d *drill) play(t *testing.T) {
	url := d.apps["game"].URL(t, "game") + "/v1/pets"
	var pet struct {
		ID    json.Number
		Eaten int `json:"meals_eaten"`
	}
	_, text := call(t, http.MethodPost, url, "", `{"owner":"ann","name":"rex"}`)
	pipelinetest.Must(t, json.Unmarshal([]byte(text), &pet))
	if code, text := call(t, http.MethodPost, url+"/"+pet.ID.String()+"/feed", "", ""); code != http.StatusOK {
		t.Fatalf("feed: status %d, %s", code, text)
	}
	pipelinetest.Await(t, "the pet to have eaten", func() bool {
		_, text := get(t, url+"/"+pet.ID.String(), "")
		pipelinetest.Must(t, json.Unmarshal([]byte(text), &pet))
		return pet.Eaten == 1
	})
}

// countConnections wants the worker to have said that MySQL takes fewer connections than the scaler's workers may open.
func (d *drill) countConnections(t *testing.T) {
	cfg := d.overlay.configOf(t, d.podOf("worker"))
	c := cfg.Worker.Concurrency
	each := cfg.MySQL.MaxOpen + len(cfg.Queues)*(2*c+(c+1)/2+1) + 4 // as docs/DEPLOYING.md has it
	db, err := sql.Open("mysql", d.DSN)
	pipelinetest.Must(t, err)
	defer func() { _ = db.Close() }()
	var allowed int
	pipelinetest.Must(t, db.QueryRowContext(t.Context(), "SELECT @@max_connections").Scan(&allowed))
	want := fmt.Sprintf(`"needed":%d,"allowed":%d`, cfg.Worker.Replicas*each, allowed)
	if n := d.apps["worker"].Says(want); n != 1 || cfg.Worker.Replicas*each <= allowed {
		t.Errorf("the worker says %d times that %s", n, want)
	}
}

// insert writes tasks of the game that are due so much later, as the page of dead tasks does: with a payload that the game's
// handler can't read. It returns their ids.
func (d *drill) insert(t *testing.T, n int, later time.Duration) []string {
	t.Helper()
	db, err := sql.Open("mysql", d.DSN)
	pipelinetest.Must(t, err)
	defer func() { _ = db.Close() }()
	var ids []string
	for range n {
		id := task.NewID()
		_, err = db.ExecContext(t.Context(), `INSERT INTO duetime_tasks
			(id, kind, owner, queue, shard, due_at, run_at, max_attempts, payload, created_at, updated_at)
			SELECT ?, 'pet.meal_finished', 'ann', 'default', CRC32('ann') MOD shards, now + ?, now + ?, 1, '[]', now, now
			FROM duetime_layout, (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 AS now) t`,
			id[:], later.Milliseconds(), later.Milliseconds())
		pipelinetest.Must(t, err)
		ids = append(ids, id.String())
	}
	return ids
}
