package repo_test

import (
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/api"
	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/consoleweb"
)

// composed is docker-compose.yml as docker parses it.
func composed(t *testing.T) *types.Project {
	t.Helper()
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: ".", ConfigFiles: []types.ConfigFile{{Filename: "docker-compose.yml"}}, Environment: types.Mapping{},
	}, func(o *loader.Options) { o.SetProjectName("duetime", true) })
	pipelinetest.Must(t, err)
	return project
}

var exactVersion = regexp.MustCompile(`:\d+\.\d+\.\d+$`)

// commands returns the names of the folders of cmd.
func commands(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("cmd")
	pipelinetest.Must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestComposeServers(t *testing.T) {
	t.Parallel()
	services := composed(t).Services
	for name, image := range map[string]string{
		"mysql": "mysql:9.7", "redis": "valkey/valkey:", "zookeeper": "zookeeper:", "kafka": "apache/kafka:",
	} {
		s, ok := services[name]
		if !ok || !strings.HasPrefix(s.Image, image) {
			t.Errorf("%s: got image %q, want %s", name, s.Image, image)
			continue
		}
		if !exactVersion.MatchString(s.Image) {
			t.Errorf("%s: image %q may change from one day to the next: name all three parts of its version", name, s.Image)
		}
		if s.HealthCheck == nil || len(s.HealthCheck.Test) < 2 {
			t.Errorf("%s has no health check", name)
		}
		if len(s.Volumes) == 0 {
			t.Errorf("%s keeps no data over a restart", name)
		}
		for _, p := range s.Ports {
			t.Errorf("%s publishes port %s", name, p.Published)
		}
	}
	if got := services["redis"].Command; !slices.Contains(got, "noeviction") {
		t.Errorf("redis may evict entries: %v", got)
	}
}

func TestComposeProcesses(t *testing.T) {
	t.Parallel()
	services := composed(t).Services
	var used []string
	for name, s := range services {
		if s.Build == nil {
			continue
		}
		if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s has rights that it doesn't need", name)
		}
		if name == "migrate" {
			used = append(used, "duetime") // the image's entry point
			want := types.ShellCommand{"migrate", "up"}
			if diff := cmp.Diff(want, s.Command); diff != "" {
				t.Errorf("migrate: command (-want +got):\n%s", diff)
			}
			for _, server := range []string{"mysql", "kafka"} {
				if s.DependsOn[server].Condition != types.ServiceConditionHealthy {
					t.Errorf("migrate does not wait for %s", server)
				}
			}
			continue
		}
		if name == "console" {
			wantConsole(t, s)
		} else if want := (types.ShellCommand{"/usr/local/bin/" + name}); !cmp.Equal(want, s.Entrypoint) {
			t.Errorf("%s: got entry point %v, want %v", name, s.Entrypoint, want)
		} else {
			used = append(used, name)
		}
		if s.DependsOn["migrate"].Condition != types.ServiceConditionCompletedSuccessfully {
			t.Errorf("%s does not wait for migrate", name)
		}
		if s.Restart == "" || s.Image != "duetime:local" {
			t.Errorf("%s: got restart %q and image %q", name, s.Restart, s.Image)
		}
		if limit := s.Environment["GOMEMLIMIT"]; s.MemLimit != 512<<20 || limit == nil || *limit != "460MiB" {
			t.Errorf("%s: may take %d bytes of memory, of these Go %v; want as much as in deploy/k8s", name, s.MemLimit, limit)
		}
		if name == "api" {
			wantTokens(t, s)
		}
		wantHealthCheck(t, s, name)
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes port %s on %q, want loopback", name, p.Published, p.HostIP)
			}
		}
	}
	slices.Sort(used)
	if diff := cmp.Diff(commands(t), used); diff != "" {
		t.Errorf("commands without a service, and services without one (-cmd +compose):\n%s", diff)
	}
	for _, name := range []string{"event", "worker"} {
		s := services[name]
		if n := s.GetScale(); n != 2 {
			t.Errorf("%s: got %d processes, want 2", name, n)
		}
	}
}

// wantConsole wants the tool, by the image's entry point, to serve its pages for those who sign in.
func wantConsole(t *testing.T, s types.ServiceConfig) {
	t.Helper()
	if want := (types.ShellCommand{"console"}); s.Entrypoint != nil || !cmp.Equal(want, s.Command) {
		t.Errorf("console: got entry point %v and command %v, want none and %v", s.Entrypoint, s.Command, want)
	}
	users := s.Environment["DUETIME_CONSOLE__USERS"]
	if users == nil {
		t.Fatal("console: nobody may sign in")
	}
	logins, err := consoleweb.ParseUsers(*users)
	if err == nil {
		_, err = consoleweb.Handler(new(console.Console), consoleweb.Config{Users: logins})
	}
	if err != nil || len(logins) != 1 {
		t.Errorf("console: %d may sign in, want one: %v", len(logins), err)
	}
}

// wantTokens wants the API to serve a caller whose token it takes.
func wantTokens(t *testing.T, s types.ServiceConfig) {
	t.Helper()
	list := s.Environment["DUETIME_API__TOKENS"]
	if list == nil {
		t.Fatal("api: nobody may call")
	}
	tokens, err := api.ParseTokens(*list)
	if err == nil {
		_, err = api.New(api.Config{Tokens: tokens}, nil, new(console.Console))
	}
	if err != nil || len(tokens) != 1 || tokens[0].Token != "duetime-api-token" {
		t.Errorf("api: %d may call, want one: %v", len(tokens), err)
	}
}

// wantHealthCheck wants a health check on the service's own admin address, by the tool in the image: the image has no
// shell and no curl. The check's timeout must be long enough for the tool. The console lives where its pages are.
func wantHealthCheck(t *testing.T, s types.ServiceConfig, name string) {
	t.Helper()
	key, more := "ADMIN", types.HealthCheckTest{"--ready"}
	if name == "console" {
		key, more = "LISTEN", nil
	}
	admin := s.Environment["DUETIME_"+strings.ToUpper(s.Name)+"__"+key]
	if admin == nil || s.HealthCheck == nil {
		t.Errorf("%s has no health check, or no admin address", s.Name)
		return
	}
	want := append(types.HealthCheckTest{
		"CMD", "/usr/local/bin/duetime", "healthcheck", "--admin", strings.Replace(*admin, "0.0.0.0", "127.0.0.1", 1),
	}, more...)
	if diff := cmp.Diff(want, s.HealthCheck.Test); diff != "" {
		t.Errorf("%s: health check (-want +got):\n%s", s.Name, diff)
	}
	if g := s.StopGracePeriod; g == nil || time.Duration(*g) <= 10*time.Second {
		t.Errorf("%s is killed after %v, and may take 10 s to end", s.Name, g)
	}
}

// The processes must know every DUETIME_ variable, and every address in one must be that of a service.
func TestComposeEnvironment(t *testing.T) {
	t.Parallel()
	services := composed(t).Services
	for name, s := range services {
		if s.Build == nil {
			continue
		}
		var environ []string
		for key, value := range s.Environment {
			if key == "GOMEMLIMIT" { // Go's own
				continue
			}
			if value == nil || !strings.HasPrefix(key, "DUETIME_") {
				t.Errorf("%s: variable %s is not ours, or has no value", name, key)
				continue
			}
			environ = append(environ, key+"="+*value)
		}
		game, page, served := pet.DefaultSettings(), config.DefaultConsole(), config.DefaultAPI()
		cfg, err := config.Load("configs/duetime.yaml", true, environ, game, page, served)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, address, _ := strings.Cut(string(cfg.MySQL.DSN), "@tcp(")
		address, _, _ = strings.Cut(address, ")")
		addresses := slices.Concat([]string{address}, cfg.Redis.Addrs, cfg.Kafka.Brokers, cfg.ZooKeeper.Servers)
		for _, a := range addresses {
			host, _, err := net.SplitHostPort(a)
			if _, ok := services[host]; err != nil || !ok {
				t.Errorf("%s: no service %q", name, a)
			}
		}
		for _, a := range []string{
			cfg.Event.Admin, cfg.Worker.Admin, cfg.Daemon.Admin, game.Admin, game.Listen, page.Listen, served.Admin, served.Listen,
		} {
			if !strings.HasPrefix(a, "0.0.0.0:") {
				t.Errorf("%s: %q can't be reached from outside of its container", name, a)
			}
		}
	}
}

// One image has all commands; its last stage has neither a shell nor rights.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("Dockerfile")
	pipelinetest.Must(t, err)
	type instruction struct{ name, args string }
	var stages [][]instruction
	for line := range strings.Lines(string(text)) {
		name, args, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case name == "" || strings.HasPrefix(name, "#"):
		case name == "FROM":
			stages = append(stages, []instruction{{name, args}})
		case len(stages) == 0:
			t.Fatalf("%s before FROM", name)
		default:
			stages[len(stages)-1] = append(stages[len(stages)-1], instruction{name, args})
		}
	}
	if len(stages) != 2 {
		t.Fatalf("got %d stages, want 2", len(stages))
	}
	has := func(stage []instruction, name string, parts ...string) {
		t.Helper()
		if !slices.ContainsFunc(stage, func(i instruction) bool {
			return i.name == name && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(i.args, p) })
		}) {
			t.Errorf("no %s with %q", name, parts)
		}
	}
	module, err := os.ReadFile("go.mod")
	pipelinetest.Must(t, err)
	_, version, _ := strings.Cut(string(module), "\ngo ")
	version, _, _ = strings.Cut(version, "\n")
	major := strings.Join(strings.Split(version, ".")[:2], ".")
	has(stages[0], "FROM", "golang:"+major)
	if base, _, _ := strings.Cut(stages[0][0].args, " "); !exactVersion.MatchString(base) {
		t.Errorf("the compiler %s may change from one day to the next: name all three parts of its version", base)
	}
	has(stages[0], "RUN", "CGO_ENABLED=0", "-o /out/", "./cmd/...")
	has(stages[1], "FROM", "distroless/static", ":nonroot")
	has(stages[1], "COPY", "--from=build", "/out/", "/usr/local/bin/")
	has(stages[1], "COPY", "configs/", "/configs/")
	has(stages[1], "USER", "65532:65532")
	has(stages[1], "ENTRYPOINT", "/usr/local/bin/duetime")
	for _, i := range stages[1] {
		if i.name == "RUN" {
			t.Errorf("RUN %s needs a shell, which the image doesn't have", i.args)
		}
	}
	for _, name := range commands(t) {
		if _, err := os.Stat("cmd/" + name + "/main.go"); err != nil {
			t.Errorf("cmd/%s: %v", name, err)
		}
	}
}

// The image's build sees all that git tracks, and git itself. Otherwise Go would stamp no commit into the commands, or call it dirty.
func TestDockerignore(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(".dockerignore")
	pipelinetest.Must(t, err)
	for pattern := range strings.FieldsSeq(string(text)) {
		tracked, err := exec.CommandContext(t.Context(), "git", "ls-files", pattern).Output()
		pipelinetest.Must(t, err)
		if len(tracked) > 0 || pattern == ".git" {
			t.Errorf("the build of the image lacks %s, of which git tracks %s", pattern, strings.Fields(string(tracked)))
		}
	}
}
