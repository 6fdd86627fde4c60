package deploy_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m)) }

// nowhere are addresses that nobody listens on.
var nowhere = []string{
	"DUETIME_MYSQL__DSN=root@tcp(127.0.0.1:1)/duetime", "DUETIME_REDIS__ADDRS=127.0.0.1:1",
	"DUETIME_KAFKA__BROKERS=127.0.0.1:1", "DUETIME_ZOOKEEPER__SERVERS=127.0.0.1:1",
	"DUETIME_EVENT__ADMIN=127.0.0.1:0", "DUETIME_WORKER__ADMIN=127.0.0.1:0",
	"DUETIME_DAEMON__ADMIN=127.0.0.1:0", "DUETIME_GAME__ADMIN=127.0.0.1:0", "DUETIME_CONSOLE__LISTEN=127.0.0.1:0",
	"DUETIME_API__ADMIN=127.0.0.1:0", "DUETIME_API__LISTEN=127.0.0.1:0",
	// Certificates, which are not there either.
	"DUETIME_MYSQL__TLS__CA_FILE=", "DUETIME_REDIS__TLS__CA_FILE=", "DUETIME_KAFKA__TLS__CA_FILE=", "DUETIME_ZOOKEEPER__TLS__CA_FILE=",
	"DUETIME_ZOOKEEPER__TLS__CERT_FILE=", "DUETIME_ZOOKEEPER__TLS__KEY_FILE=",
}

// The processes take the command lines and files of their pods, and answer their probes while their servers are away: they
// live, and are not ready. The console is: its pages say what is away.
func TestProbes(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		for name, d := range c.deployments {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := pod{d.Spec.Template, name}
				env := append(pairs(c.environ(t, p)), nowhere...)
				binary := pipelinetest.Build(t, "./cmd/"+filepath.Base(p.container().Command[0]))
				process := pipelinetest.App{Proc: pipelinetest.Run(t, binary, env, c.arguments(t, p)...), Name: name}
				if name == "console" {
					_, at, _ := strings.Cut(process.WaitLine(t, "the console is at "), "the console is at ")
					url, _, _ := strings.Cut(at, "/ ")
					wantProbe(t, url, "console", p.container().LivenessProbe, http.StatusOK)
					wantProbe(t, url, "console", p.container().ReadinessProbe, http.StatusOK)
					process.Stop(t)
					return
				}
				process.WaitLine(t, `"msg":"waiting"`)
				wantProbe(t, process.URL(t, "admin"), "admin", p.container().LivenessProbe, http.StatusOK)
				wantProbe(t, process.URL(t, "admin"), "admin", p.container().ReadinessProbe, http.StatusServiceUnavailable)
				process.Stop(t)
			})
		}
	})
}

// The migration's command line is one that the tool knows: it can't reach its servers, exit code 2.
func TestMigrateCommand(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		p := pod{c.jobs["migrate"].Spec.Template, "migrate"}
		env := append(pairs(c.environ(t, p)), nowhere...)
		tool := pipelinetest.Run(t, pipelinetest.Build(t, "./cmd/"+filepath.Base(p.container().Command[0])), env, c.arguments(t, p)...)
		if code := tool.Wait(t, 2*time.Minute); code != 2 {
			t.Errorf("%v: exit code %d, want 2", p.container().Command, code)
		}
	})
}

// arguments is the pod's command line without its program, with the ConfigMap where this test can read it.
func (c *cluster) arguments(t *testing.T, p pod) []string {
	t.Helper()
	var args []string
	for _, arg := range p.container().Command[1:] {
		args = append(args, strings.Replace(arg, "/configs", c.mounted(t, p), 1))
	}
	return args
}

func wantProbe(t *testing.T, url, port string, probe *corev1.Probe, want int) {
	t.Helper()
	if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Port.StrVal != port {
		t.Errorf("no probe of the port %s: %+v", port, probe)
		return
	}
	if got, text := get(t, url+probe.HTTPGet.Path, ""); got != want {
		t.Errorf("%s answers %d %q, want %d", probe.HTTPGet.Path, got, text, want)
	}
}

// get asks for an address with a basic sign-in as user:password, empty for none.
func get(t *testing.T, url, login string) (status int, text string) {
	t.Helper()
	return call(t, http.MethodGet, url, login, "")
}

func call(t *testing.T, method, url, login, body string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	pipelinetest.Must(t, err)
	if user, password, found := strings.Cut(login, ":"); found {
		req.SetBasicAuth(user, password)
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	pipelinetest.Must(t, err)
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	pipelinetest.Must(t, err)
	return res.StatusCode, string(answer)
}
