package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// fortress is a deployment on servers of its own where every link is encrypted and every user has the rights of deploy.
type fortress struct {
	pipelinetest.Deployment

	servers *pipelinetest.SecuredServers
}

func newFortress(t *testing.T) *fortress {
	t.Helper()
	servers := pipelinetest.OwnSecuredServers(t, pipelinetest.Namespace(t))
	f := &fortress{servers.Deploy(t), servers}
	f.Rules = []string{"DUETIME_KAFKA__PARTITIONS=4", "DUETIME_GAME__MEAL=3s", "DUETIME_GAME__SPEEDUP=1s", "DUETIME_LOG__LEVEL=debug", "DUETIME_DAEMON__WITNESS=true"}
	f.Migrate(t)
	return f
}

// refusals are what a log says of a right that is missing.
var refusals = []string{"NOPERM", "WRONGPASS", "NOAUTH", "denied", "Authorization", "uthentication", "not authenticated", "x509"}

// TestSecured plays with everything switched on, breaks what heals by itself, and looks whether anybody lacked a right.
func TestSecured(t *testing.T) {
	t.Parallel()
	f := newFortress(t)
	apps := map[string]pipelinetest.App{}
	for _, name := range commands {
		apps[name] = f.Ready(t, name)
	}
	url := apps["game"].URL(t, "game")
	t.Run("meals", func(t *testing.T) { f.play(t, url, "ann") })
	t.Run("after Redis lost its memory", func(t *testing.T) {
		pipelinetest.Must(t, f.servers.Redis.Kill())
		pipelinetest.Must(t, f.servers.Redis.Start())
		f.play(t, url, "bob")
		apps["daemon"].WaitLine(t, `"msg":"rebuil`)
	})
	t.Run("while Redis is silent", func(t *testing.T) {
		pipelinetest.Must(t, f.servers.Redis.Freeze())
		pet := create(t, url, "eve")
		call(t, http.MethodPost, fmt.Sprintf("%s/v1/pets/%s/feed", url, pet), "", http.StatusOK)
		pipelinetest.Must(t, f.servers.Redis.Thaw())
		awaitEaten(t, url, pet, 1)
	})
	t.Run("queues by the API", func(t *testing.T) {
		post := func(method string) {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, apps["api"].URL(t, "api")+"/duetime.v1.QueueService/"+method,
				strings.NewReader(`{"queue": "pushes"}`))
			pipelinetest.Must(t, err)
			req.Header.Set("Content-Type", "application/json")
			answer(t, req, http.StatusOK)
		}
		post("AddQueue")
		if code, out := f.Duetime(t, "queue", "rate", "pushes", "50/m"); code != 0 {
			t.Errorf("a limit of the queue: exit code %d: %s", code, out)
		}
		post("RetireQueue")
	})
	t.Run("witness", f.witness)
	t.Run("tool", func(t *testing.T) { f.look(t) })
	t.Run("profiles", func(t *testing.T) { f.profile(t, apps["worker"]) })
	for name, app := range apps {
		app.Stop(t)
		for _, line := range app.Lines() {
			for _, word := range refusals {
				if strings.Contains(line, word) {
					t.Errorf("%s says: %s", name, line)
				}
			}
			for _, user := range append(pipelinetest.Users, "zookeeper", "pprof") {
				if strings.Contains(line, f.Secured.Password(user)) {
					t.Errorf("%s says the password of %s", name, user)
				}
			}
		}
	}
}

// witness waits until each play of the witness has been played by the rights of the daemon, and reads the verdicts by those of an operator.
// (A scrape of the daemon would log that it lacks the right PROCESS.)
func (f *fortress) witness(t *testing.T) {
	cfg, err := mysql.ParseDSN(strings.Replace(f.DSN, "root@", "duetime_operator@", 1))
	pipelinetest.Must(t, err)
	cfg.Passwd, cfg.TLS = f.Secured.Password("operator"), f.Secured.Authority.Client(t)
	db := connect(t, cfg)
	var judged int
	var faults string
	pipelinetest.Await(t, "verdicts on plays of each kind", func() bool {
		pipelinetest.Must(t, db.QueryRowContext(t.Context(), "SELECT COUNT(judged_at), COALESCE(GROUP_CONCAT(NULLIF(faults, '')), '')"+
			" FROM duetime_witness_plays").Scan(&judged, &faults))
		return judged >= 10
	})
	if faults != "" {
		t.Errorf("faults: %s", faults)
	}
}

// play has the owner's pet eat: one meal as it comes, one sped up, one by a card, and one taken back.
func (f *fortress) play(t *testing.T, url, owner string) {
	t.Helper()
	pet := create(t, url, owner)
	at := url + "/v1/pets/" + pet
	call(t, http.MethodPost, at+"/feed", "", http.StatusOK)
	awaitEaten(t, url, pet, 1)
	call(t, http.MethodPost, at+"/feed", "", http.StatusOK)
	call(t, http.MethodPost, at+"/autofeed", "", http.StatusOK)
	call(t, http.MethodPost, url+"/v1/owners/"+owner+"/speedup", "", http.StatusOK)
	awaitEaten(t, url, pet, 3)
	call(t, http.MethodPost, at+"/feed", "", http.StatusOK)
	for _, from := range []string{"", "?source=db"} {
		pipelinetest.Await(t, "the owner's tasks"+from, func() bool {
			return strings.Contains(call(t, http.MethodGet, url+"/v1/owners/"+owner+"/tasks"+from, "", http.StatusOK), "task_id")
		})
	}
	call(t, http.MethodDelete, at+"/meal", "", http.StatusOK)
}

// look runs the tool as its own users.
func (f *fortress) look(t *testing.T) {
	t.Helper()
	if code, v := f.Verify(t); code != 0 {
		t.Errorf("verify: exit code %d, %+v", code, v)
	}
	for _, args := range [][]string{
		{"stats"},
		{"task", "list", "--json"},
		{"dead", "list"},
		{"shard", "stat"},
		{"shard", "rebuild", "--all", "--yes"},
		{"leader", "show"},
		{"processes"},
		{"leader", "resign", "daemon", "--yes"},
		{"pause", "default", "--yes"},
		{"resume", "default"},
		{"top", "--once"},
		{"migrate", "status"},
		{"migrate", "up"},
	} {
		if code, out := f.Duetime(t, args...); code != 0 {
			t.Errorf("%s: exit code %d, %s", args, code, out)
		}
	}
}

// profile asks for a profile with the token and without.
func (f *fortress) profile(t *testing.T, app pipelinetest.App) {
	t.Helper()
	for token, want := range map[string]int{f.Secured.Password("pprof"): http.StatusOK, "wrong": http.StatusUnauthorized} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, app.URL(t, "admin")+"/debug/pprof/heap", http.NoBody)
		pipelinetest.Must(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		req.Close = true
		res, err := http.DefaultClient.Do(req)
		pipelinetest.Must(t, err)
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("status %d, want %d", res.StatusCode, want)
		}
	}
}

// create makes a pet and gives its id.
func create(t *testing.T, url, owner string) string {
	t.Helper()
	var pet struct{ ID json.Number }
	pipelinetest.Must(t, json.Unmarshal([]byte(call(t, http.MethodPost, url+"/v1/pets", fmt.Sprintf(`{"owner":%q,"name":"rex"}`, owner), http.StatusCreated)), &pet))
	return pet.ID.String()
}

func awaitEaten(t *testing.T, url, pet string, meals int) {
	t.Helper()
	pipelinetest.Await(t, fmt.Sprintf("pet %s to have eaten %d meals", pet, meals), func() bool {
		var got struct {
			Eaten int `json:"meals_eaten"`
		}
		pipelinetest.Must(t, json.Unmarshal([]byte(call(t, http.MethodGet, url+"/v1/pets/"+pet, "", http.StatusOK)), &got))
		return got.Eaten >= meals
	})
}

// call makes one request and wants it to be answered so.
func call(t *testing.T, method, url, body string, want int) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	pipelinetest.Must(t, err)
	return string(answer(t, req, want))
}

// makeNodes has each process lead once: the nodes of its election belong to whom it was then.
func makeNodes(t *testing.T, d pipelinetest.Deployment, elected []string) {
	t.Helper()
	for _, name := range elected {
		app := d.Ready(t, name)
		app.WaitLine(t, `"msg":"leading"`)
		app.Stop(t)
	}
}

// mostConnections is how many a process may try that is refused: it looks once or twice, and its other parts may have
// begun.
const mostConnections = 10

// TestRefusedLinks gives processes wrong credentials and other authorities, link by link: each ends with code 1 and one
// complaint that names the key, and has not hammered the server.
func TestRefusedLinks(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	f := newFortress(t)
	elected := []string{"event", "daemon"}
	makeNodes(t, f.Deployment, elected)
	wrong := filepath.Join(t.TempDir(), "wrong")
	pipelinetest.Must(t, os.WriteFile(wrong, []byte("not the password"), 0o600))
	stranger := pipelinetest.NewAuthority(t)
	s := f.servers
	for _, c := range []struct {
		link, key string
		names     []string // of the commands
		server    string
		wrong     string // the variable that is wrong, without its beginning
		value     string
		want      string
	}{
		{"mysql", "DSN", commands, s.MySQL.Addr(), "PASSWORD_FILE", wrong, "mysql.dsn: "},
		{"mysql", "DSN", commands, s.MySQL.Addr(), "TLS__CA_FILE", stranger.CAFile, "mysql.tls.ca_file: "},
		{"redis", "ADDRS", commands, s.Redis.Addr(), "PASSWORD_FILE", wrong, "redis.username or redis.password: "},
		{"redis", "ADDRS", commands, s.Redis.Addr(), "TLS__CA_FILE", stranger.CAFile, "redis.tls.ca_file: "},
		{"kafka", "BROKERS", commands, s.Kafka.SecureAddr(), "SASL__PASSWORD_FILE", wrong, "kafka.sasl.username or kafka.sasl.password: "},
		{"kafka", "BROKERS", commands, s.Kafka.SecureAddr(), "TLS__CA_FILE", stranger.CAFile, "kafka.tls.ca_file: "},
		{"zookeeper", "SERVERS", elected, s.ZooKeeper.SecureAddr(), "PASSWORD_FILE", wrong, "zookeeper.username or zookeeper.password: "},
		{"zookeeper", "SERVERS", elected, s.ZooKeeper.SecureAddr(), "TLS__CA_FILE", stranger.CAFile, "zookeeper.tls.ca_file: "},
	} {
		for _, name := range c.names {
			t.Run(c.link+" "+c.wrong+" "+name, func(t *testing.T) {
				t.Parallel()
				counter := pipelinetest.Count(t, c.server)
				prefix := "DUETIME_" + strings.ToUpper(c.link) + "__"
				addr := counter.Addr()
				if c.link == "mysql" {
					addr = strings.Replace(strings.Replace(f.DSN, c.server, addr, 1), "root@", "duetime_"+name+"@", 1)
				}
				proc := f.Start(t, name, prefix+c.key+"="+addr, prefix+c.wrong+"="+c.value)
				if code := proc.Wait(t, 2*time.Minute); code != 1 {
					t.Errorf("exit code %d, want 1", code)
				}
				if last := proc.Lines()[len(proc.Lines())-1]; !strings.Contains(last, c.want) || !strings.Contains(last, `"level":"ERROR"`) {
					t.Errorf("the last line is %s, want it to say %s", last, c.want)
				}
				if n := counter.Connections(); n > mostConnections {
					t.Errorf("%d connections, want at most %d", n, mostConnections)
				} else {
					t.Logf("%d connections", n)
				}
			})
		}
	}
}
