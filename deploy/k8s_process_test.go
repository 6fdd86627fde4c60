package deploy_test

import (
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
	"DUETIME_DAEMON__ADMIN=127.0.0.1:0", "DUETIME_GAME__ADMIN=127.0.0.1:0",
}

// The processes take the command lines and files of their pods, and answer their probes while their servers are away: they
// live, and are not ready.
func TestProbes(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		for name, d := range c.deployments {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := pod{d.Spec.Template, name}
				env := append(pairs(c.environ(t, p)), nowhere...)
				binary := pipelinetest.Build(t, "./cmd/"+filepath.Base(p.container().Command[0]))
				process := pipelinetest.App{Proc: pipelinetest.Run(t, binary, env, c.arguments(t, p)...), Name: name}
				process.WaitLine(t, `"msg":"waiting"`)
				wantProbe(t, process, p.container().LivenessProbe, http.StatusOK)
				wantProbe(t, process, p.container().ReadinessProbe, http.StatusServiceUnavailable)
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

func wantProbe(t *testing.T, a pipelinetest.App, probe *corev1.Probe, want int) {
	t.Helper()
	if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Port.StrVal != "admin" {
		t.Errorf("%s: no probe of the admin port: %+v", a.Name, probe)
		return
	}
	if got, text := a.Get(t, probe.HTTPGet.Path); got != want {
		t.Errorf("%s: %s answers %d %q, want %d", a.Name, probe.HTTPGet.Path, got, text, want)
	}
}
