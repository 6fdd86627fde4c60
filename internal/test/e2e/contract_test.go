package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

var commands = []string{"event", "worker", "daemon", "game", "api"}

// metricsOf are the names that each process shows from its start, before it has done anything.
var metricsOf = map[string][]string{
	"event":  {"duetime_leader ", "duetime_fenced_total ", "duetime_hints_published_total "},
	"worker": {"# TYPE go_goroutines "}, // the vectors have no sample before their first label
	"daemon": {"# TYPE go_goroutines "},
	"game":   {"# TYPE go_goroutines "},
	"api":    {"duetime_api_watches "},
}

// TestWaitsThenIsReady starts each process before MySQL is there.
func TestWaitsThenIsReady(t *testing.T) {
	t.Parallel()
	p := pipelinetest.SharedDeployment(t)
	for _, name := range commands {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := pipelinetest.Proxy(t, pipelinetest.MySQL(t).Addr())
			gate.Refuse()
			p := p
			p.DSN = strings.Replace(p.DSN, pipelinetest.MySQL(t).Addr(), gate.Addr(), 1)
			proc := p.Start(t, name)
			proc.WaitLine(t, `"msg":"waiting","what":"mysql"`)
			wantHealth(t, proc, http.StatusServiceUnavailable)
			metrics := proc.Metrics(t)
			for _, want := range metricsOf[name] {
				if !strings.Contains(metrics, "\n"+want) {
					t.Errorf("/metrics lacks %q", want)
				}
			}
			gate.Heal()
			proc.WaitReady(t)
			wantHealth(t, proc, http.StatusOK)
			proc.Stop(t)
			if n := proc.Says(`"msg":"ready"`); n != 1 {
				t.Errorf("said ready %d times, want once", n)
			}
		})
	}
}

// wantHealth wants the process alive, and /readyz to answer so.
func wantHealth(t *testing.T, p pipelinetest.App, ready int) {
	t.Helper()
	if code, _ := p.Get(t, "/livez"); code != http.StatusOK {
		t.Errorf("/livez answers %d, want 200", code)
	}
	if code, body := p.Get(t, "/readyz"); code != ready {
		t.Errorf("/readyz answers %d %q, want %d", code, body, ready)
	}
}

// TestStopsWhileWaiting keeps one server away that the process can't do without: it says so, and can still be stopped.
func TestStopsWhileWaiting(t *testing.T) {
	t.Parallel()
	p := pipelinetest.SharedDeployment(t)
	for _, c := range []struct {
		name, away string
		ready      bool // needs no such server to be ready
	}{
		{"event", "MYSQL__DSN", false},
		{"event", "ZOOKEEPER__SERVERS", false},
		{"event", "REDIS__ADDRS", true},
		{"worker", "MYSQL__DSN", false},
		{"worker", "KAFKA__BROKERS", true},
		{"daemon", "MYSQL__DSN", false},
		{"daemon", "ZOOKEEPER__SERVERS", false},
		{"daemon", "REDIS__ADDRS", true},
		{"game", "MYSQL__DSN", false},
		{"api", "MYSQL__DSN", false},
	} {
		t.Run(c.name+"/"+c.away, func(t *testing.T) {
			t.Parallel()
			nobody := pipelinetest.Proxy(t, "127.0.0.1:1")
			nobody.Refuse()
			value := nobody.Addr()
			if c.away == "MYSQL__DSN" {
				value = "root@tcp(" + value + ")/game"
			}
			proc := p.Start(t, c.name, "DUETIME_"+c.away+"="+value)
			proc.WaitLine(t, `"level":"WARN","msg":"waiting`)
			want := http.StatusServiceUnavailable
			if c.ready {
				proc.WaitReady(t)
				want = http.StatusOK
			}
			wantHealth(t, proc, want)
			proc.Stop(t)
		})
	}
}

// TestWaitsForTheSchema starts each process on an empty schema.
func TestWaitsForTheSchema(t *testing.T) {
	t.Parallel()
	for _, name := range commands {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pipelinetest.SharedDeployment(t)
			p.DSN = pipelinetest.MySQL(t).NewSchema(t)
			proc := p.Start(t, name)
			if line := proc.WaitLine(t, `"msg":"waiting"`); !strings.Contains(line, "migrate") {
				t.Errorf("says %s, without what to do", line)
			}
			p.Migrate(t)
			proc.WaitReady(t)
			proc.Stop(t)
		})
	}
}

// TestGameNeedsMySQLAlone plays with Redis, Kafka and ZooKeeper away.
func TestGameNeedsMySQLAlone(t *testing.T) {
	t.Parallel()
	p := pipelinetest.SharedDeployment(t)
	nobody := pipelinetest.Proxy(t, "127.0.0.1:1")
	nobody.Refuse()
	p.Redis, p.Kafka, p.ZooKeeper = nobody.Addr(), nobody.Addr(), nobody.Addr()
	game := p.Ready(t, "game")
	url := game.URL(t, "game") + "/v1/pets"
	for i := range 20 {
		began := time.Now()
		post(t, url, fmt.Sprintf(`{"owner":"player","name":"pet-%d"}`, i), http.StatusCreated)
		post(t, fmt.Sprintf("%s/%d/feed", url, i+1), "", http.StatusOK)
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("two answers took %v, want at most 1s each (the test allows 2s)", took)
		}
	}
	game.Stop(t)
}

// post makes one call and wants it to be answered so.
func post(t *testing.T, url, body string, want int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	pipelinetest.Must(t, err)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	pipelinetest.Must(t, err)
	_ = res.Body.Close()
	if res.StatusCode != want {
		t.Errorf("POST %s answers %d, want %d", url, res.StatusCode, want)
	}
}

// TestExitsOnWhatNoWaitingCures wants exit code 1 and one line that says what to change.
func TestExitsOnWhatNoWaitingCures(t *testing.T) {
	t.Parallel()
	p := pipelinetest.SharedDeployment(t)
	guarded, evicting := pipelinetest.OwnRedis(t, "--requirepass", "right"), pipelinetest.OwnRedis(t, "--maxmemory-policy", "allkeys-lru")
	elected := []string{"event", "daemon"}
	makeNodes(t, p, elected)
	file := filepath.Join(t.TempDir(), "duetime.yaml")
	pipelinetest.Must(t, os.WriteFile(file, []byte("evnt:\n  lead: 1s\n"), 0o600))
	type refusal struct {
		title string
		names []string // of the commands
		env   []string
		args  []string
		want  []string // all in the line
	}
	for _, c := range []refusal{
		{"mysql password", commands, []string{"DUETIME_MYSQL__DSN=" + strings.Replace(p.DSN, "root@", "root:wrong@", 1)}, nil, []string{"mysql.dsn", "denied"}},
		{"redis password", commands, []string{"DUETIME_REDIS__ADDRS=" + guarded.Addr(), "DUETIME_REDIS__PASSWORD=wrong"}, nil, []string{"redis.password", "WRONGPASS"}},
		{"redis without its password", []string{"event"}, []string{"DUETIME_REDIS__ADDRS=" + guarded.Addr()}, nil, []string{"redis.password", "NOAUTH"}},
		{"redis that evicts", commands, []string{"DUETIME_REDIS__ADDRS=" + evicting.Addr()}, nil, []string{"redis.addrs", "maxmemory-policy is allkeys-lru", "noeviction"}},
		{"nodes that anybody may write", elected, []string{"DUETIME_ZOOKEEPER__USERNAME=duetime", "DUETIME_ZOOKEEPER__PASSWORD=right"}, nil, []string{"zookeeper.username", "anybody may write node /" + p.Namespace}},
		{"unknown variable", commands, []string{"DUETIME_EVNT__LEAD=1s"}, nil, []string{"DUETIME_EVNT__LEAD"}},
		{"bad value", commands, []string{"DUETIME_EVENT__LEAD=soon"}, nil, []string{"DUETIME_EVENT__LEAD", "duration"}},
		{"value out of limits", commands, []string{"DUETIME_WORKER__BATCH=0"}, nil, []string{"worker.batch", "limit 1"}},
		{"unknown key of the file", commands, nil, []string{"--config", file}, []string{file, "evnt"}},
		{"missing file", commands, nil, []string{"--config", file + ".absent"}, []string{file + ".absent"}},
		{"another namespace", commands, []string{"DUETIME_NAMESPACE=another"}, nil, []string{"namespace", "another", p.Namespace}},
	} {
		for _, name := range c.names {
			t.Run(c.title+"/"+name, func(t *testing.T) {
				t.Parallel()
				proc := pipelinetest.App{Proc: pipelinetest.Run(t, pipelinetest.Build(t, "./cmd/"+name), p.Env(c.env...), c.args...), Name: name}
				if code := proc.Wait(t, time.Minute); code != 1 {
					t.Errorf("exit code %d, want 1", code)
				}
				wantOneComplaint(t, proc, c.want)
			})
		}
	}
}

// Two schemas of one namespace on one Redis would take each other's entries for garbage. Whoever comes second is refused.
func TestTwoSchemasOfOneNamespace(t *testing.T) {
	t.Parallel()
	first := pipelinetest.SharedDeployment(t)
	event, client := first.Ready(t, "event"), redis.NewClient(&redis.Options{Addr: first.Redis})
	t.Cleanup(func() { _ = client.Close() })
	pipelinetest.Await(t, "the claim", func() bool { // it is ready before
		return client.Exists(t.Context(), first.Namespace+":deployment").Val() == 1
	})
	event.Stop(t)
	second := first
	second.DSN = pipelinetest.MySQL(t).NewSchema(t)
	second.Migrate(t)
	for _, name := range []string{"event", "daemon", "worker"} {
		proc := second.Start(t, name)
		if code := proc.Wait(t, time.Minute); code != 1 {
			t.Errorf("%s: exit code %d, want 1", name, code)
		}
		wantOneComplaint(t, proc, []string{"namespace", "belongs to another MySQL schema on this Redis", "delete the Redis key " + first.Namespace + ":deployment"})
	}
	first.Ready(t, "daemon").Stop(t)
}

// TestMemoryPolicyThatMayNotBeAskedFor is worth a warning alone.
func TestMemoryPolicyThatMayNotBeAskedFor(t *testing.T) {
	t.Parallel()
	p := pipelinetest.SharedDeployment(t)
	secretive := pipelinetest.OwnRedis(t, strings.Fields("--maxmemory-policy allkeys-lru --user default off --user player on >right ~* &* +@all -info")...)
	game := p.Ready(t, "game", "DUETIME_REDIS__ADDRS="+secretive.Addr(), "DUETIME_REDIS__USERNAME=player", "DUETIME_REDIS__PASSWORD=right")
	game.WaitLine(t, "redis memory policy unknown")
	game.Stop(t)
}

// TestSessionTimeoutThatTheBrokerRefuses ends those that join a group: nothing but another setting cures it.
func TestSessionTimeoutThatTheBrokerRefuses(t *testing.T) {
	t.Parallel()
	p := pipelinetest.SharedDeployment(t)
	strict := pipelinetest.OwnKafka(t, "group.min.session.timeout.ms=6000")
	for _, name := range []string{"worker", "daemon"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := p.Env("DUETIME_KAFKA__BROKERS="+strict.Addr(), "DUETIME_KAFKA__SESSION_TIMEOUT=2s")
			proc := pipelinetest.App{Proc: pipelinetest.Run(t, pipelinetest.Build(t, "./cmd/"+name), env), Name: name}
			if code := proc.Wait(t, 2*time.Minute); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			lines := proc.Lines()
			if last := lines[len(lines)-1]; !strings.Contains(last, "kafka.session_timeout") {
				t.Errorf("the last line does not name the key: %s", last)
			}
		})
	}
}

// slowness are warnings that a machine which stands still for a second may add to any complaint.
var slowness = []string{`"msg":"waiting"`, `"msg":"waiting for zookeeper"`, `"msg":"clock gap"`}

// wantOneComplaint wants one line that is no mere information, and in it every one of the texts.
func wantOneComplaint(t *testing.T, p pipelinetest.App, want []string) {
	t.Helper()
	var complaints []string
	for _, line := range p.Lines() {
		slow := strings.Contains(line, `"level":"WARN"`) &&
			slices.ContainsFunc(slowness, func(msg string) bool { return strings.Contains(line, msg) })
		if !strings.Contains(line, `"level":"INFO"`) && !slow {
			complaints = append(complaints, line)
		}
	}
	if len(complaints) != 1 {
		t.Errorf("%d lines, want one:\n%s", len(complaints), strings.Join(complaints, "\n"))
	}
	for _, text := range want {
		if !strings.Contains(strings.Join(complaints, "\n"), text) {
			t.Errorf("%q is not in %s", text, strings.Join(complaints, "\n"))
		}
	}
	if strings.Contains(strings.Join(complaints, "\n"), "wrong@") {
		t.Error("the password is in the log")
	}
}

// TestAnotherShardCountIsOneWarning starts each process with a number of shards that the schema was not made with.
func TestAnotherShardCountIsOneWarning(t *testing.T) {
	t.Parallel()
	p := pipelinetest.SharedDeployment(t)
	for _, name := range commands {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proc := p.Ready(t, name, "DUETIME_SHARDS=7")
			proc.Stop(t)
			if n := proc.Says("shards ignored"); n != 1 {
				t.Errorf("%d warnings, want 1", n)
			}
		})
	}
}

// TestUnknownSettingsOfOthersAreIgnored sets variables such as an orchestrator injects.
func TestUnknownSettingsOfOthersAreIgnored(t *testing.T) {
	t.Parallel()
	p := pipelinetest.SharedDeployment(t)
	p.Ready(t, "game", "DUETIME_GAME_PORT=tcp://127.0.0.1:80", "DUETIME_SERVICE_HOST=127.0.0.1").Stop(t)
}
