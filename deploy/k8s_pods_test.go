package deploy_test

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	psa "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// endsWithin is how long a process takes to end at most, in seconds.
const endsWithin = 10

// mysqlAddress stands in a Secret, which the repository doesn't have.
const mysqlAddress = "mysql.data.svc:3306"

// environ is what a pod's one container gets as its environment, of ours.
func (c *cluster) environ(t *testing.T, p pod) map[string]string {
	t.Helper()
	env := map[string]string{}
	if len(p.container().EnvFrom) != 2 {
		t.Errorf("%s: takes its environment from %d places, want the servers' and its secrets", p.name, len(p.container().EnvFrom))
	}
	for _, from := range p.container().EnvFrom {
		switch {
		case from.ConfigMapRef != nil:
			m := c.configs[from.ConfigMapRef.Name]
			if m == nil {
				t.Fatalf("%s: no ConfigMap %s", p.name, from.ConfigMapRef.Name)
			}
			maps.Copy(env, m.Data)
		case from.SecretRef.Name != secretOf(p.name):
			t.Errorf("%s takes the secrets of %s", p.name, from.SecretRef.Name)
		default:
			maps.Copy(env, c.secrets[from.SecretRef.Name].StringData)
		}
	}
	return env
}

// secretOf is the Secret of a pod: the console does what an operator may.
func secretOf(name string) string {
	if name == "console" {
		return "operator"
	}
	return name
}

// mounted writes the ConfigMap that is mounted at /configs into a folder.
func (c *cluster) mounted(t *testing.T, p pod) string {
	t.Helper()
	dir := t.TempDir()
	for _, v := range p.Spec.Volumes {
		if v.Secret != nil {
			continue // certificates
		}
		m := c.configs[v.ConfigMap.Name]
		if m == nil || !slices.Contains(p.container().VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: "/configs", ReadOnly: true}) {
			t.Fatalf("%s: volume %s holds no ConfigMap, or is not mounted at /configs", p.name, v.Name)
		}
		for name, text := range m.Data {
			pipelinetest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
	}
	return dir
}

// configOf is what the pod's process makes of its file and its environment. Unknown keys and variables fail the test.
func (c *cluster) configOf(t *testing.T, p pod) config.Config {
	t.Helper()
	cfg, _, _, _ := c.load(t, p)
	return cfg
}

// load is configOf with the sections of the game, the console and the API.
func (c *cluster) load(t *testing.T, p pod) (config.Config, *pet.Settings, *config.Console, *config.API) {
	t.Helper()
	game, console, api := pet.DefaultSettings(), config.DefaultConsole(), config.DefaultAPI()
	sections := []config.Section{game, console}
	if p.name == "api" { // the others don't have its tokens
		sections = append(sections, api)
	}
	cfg, err := config.Load(filepath.Join(c.mounted(t, p), "duetime.yaml"), true, pairs(c.environ(t, p)), sections...)
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	return cfg, game, console, api
}

func pairs(env map[string]string) []string {
	var list []string
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	return list
}

// portsOf are the addresses that the pod's configuration lets it listen on, by the names of their ports.
func (c *cluster) portsOf(t *testing.T, p pod) map[string]string {
	t.Helper()
	cfg, game, console, api := c.load(t, p)
	return map[string]map[string]string{
		"event": {"admin": cfg.Event.Admin}, "worker": {"admin": cfg.Worker.Admin}, "daemon": {"admin": cfg.Daemon.Admin},
		"game": {"admin": game.Admin, "api": game.Listen}, "console": {"console": console.Listen},
		"api": {"admin": api.Admin, "api": api.Listen},
	}[p.name]
}

func TestPodsConfigureTheirProcesses(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		for _, p := range c.pods() {
			c.configOf(t, p)
			command := p.container().Command
			if _, err := os.Stat("../cmd/" + filepath.Base(command[0]) + "/main.go"); err != nil || filepath.Dir(command[0]) != "/usr/local/bin" {
				t.Errorf("%s runs %v, which the image doesn't have", p.name, command)
			}
			if at := slices.Index(command, "--config"); at < 0 || command[at+1] != "/configs/duetime.yaml" {
				t.Errorf("%s runs %v, and may miss its configuration", p.name, command)
			}
			if image := p.container().Image; !strings.HasPrefix(image, "duetime:") {
				t.Errorf("%s: image %s", p.name, image)
			}
			for _, v := range p.container().Env {
				if strings.HasPrefix(v.Name, "DUETIME_") {
					t.Errorf("%s: %s belongs into a ConfigMap or a Secret", p.name, v.Name)
				}
			}
		}
	})
}

// Each process is reached at the ports that its configuration says, from outside of its pod.
func TestPodsAreReachable(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		for name, d := range c.deployments {
			p := pod{d.Spec.Template, name}
			want, got := c.portsOf(t, p), map[string]string{}
			for _, port := range p.container().Ports {
				got[port.Name] = net.JoinHostPort("0.0.0.0", fmt.Sprint(port.ContainerPort))
			}
			if !maps.Equal(want, got) {
				t.Errorf("%s: has ports %v, configured are %v", name, got, want)
			}
		}
		for name, s := range c.services {
			for _, port := range s.Spec.Ports {
				if !slices.ContainsFunc(c.pods(), func(p pod) bool {
					return p.matches(labels.SelectorFromSet(s.Spec.Selector)) && hasPort(p, port.TargetPort.StrVal)
				}) {
					t.Errorf("service %s: no pod has port %s", name, port.TargetPort.StrVal)
				}
			}
		}
	})
}

func hasPort(p pod, name string) bool {
	return slices.ContainsFunc(p.container().Ports, func(port corev1.ContainerPort) bool { return port.Name == name })
}

// What the Pod Security Standards call restricted, and more.
func TestPodsHaveNoRights(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
		pipelinetest.Must(t, err)
		restricted := psa.LevelVersion{Level: psa.LevelRestricted, Version: psa.LatestVersion()}
		if c.namespaces[namespace].Labels["pod-security.kubernetes.io/enforce"] != string(psa.LevelRestricted) {
			t.Errorf("the namespace takes pods with rights")
		}
		for _, p := range c.pods() {
			for _, r := range checks.EvaluatePod(restricted, &p.ObjectMeta, &p.Spec) {
				if !r.Allowed {
					t.Errorf("%s: %s (%s)", p.name, r.ForbiddenReason, r.ForbiddenDetail)
				}
			}
			if len(p.Spec.Containers) != 1 || len(p.Spec.InitContainers) > 0 {
				t.Errorf("%s: want one container", p.name)
			}
			if s := p.container().SecurityContext; s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
				t.Errorf("%s can write to its root", p.name)
			}
			if token := p.Spec.AutomountServiceAccountToken; token == nil || *token || c.accounts[p.Spec.ServiceAccountName] == nil {
				t.Errorf("%s: account %s, its token mounted", p.name, p.Spec.ServiceAccountName)
			}
			checkResources(t, p)
		}
	})
}

func checkResources(t *testing.T, p pod) {
	t.Helper()
	r := p.container().Resources
	if r.Requests.Cpu().IsZero() || r.Requests.Memory().IsZero() || r.Limits.Memory().IsZero() || r.Requests.Memory().Cmp(*r.Limits.Memory()) > 0 {
		t.Errorf("%s: requests %v, limits %v", p.name, r.Requests, r.Limits)
	}
	for _, v := range p.container().Env {
		var mib int64
		if v.Name != "GOMEMLIMIT" {
			continue
		}
		if _, err := fmt.Sscanf(v.Value, "%dMiB", &mib); err != nil || mib<<20 >= r.Limits.Memory().Value() {
			t.Errorf("%s: GOMEMLIMIT %s with a limit of %v", p.name, v.Value, r.Limits.Memory())
		}
	}
}

// A process has the time that it takes to end, and stands again before its predecessor is gone.
func TestDeploymentsRollSafely(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		for name, d := range c.deployments {
			grace := *d.Spec.Template.Spec.TerminationGracePeriodSeconds
			if l := d.Spec.Template.Spec.Containers[0].Lifecycle; l != nil {
				grace -= l.PreStop.Sleep.Seconds
			}
			if grace <= endsWithin {
				t.Errorf("%s: is killed %d s after its SIGTERM, and takes up to %d", name, grace, endsWithin)
			}
			if r := d.Spec.Strategy.RollingUpdate; r == nil || r.MaxUnavailable.IntValue() != 0 || r.MaxSurge.IntValue() != 1 {
				t.Errorf("%s: rolls by %+v", name, r)
			}
			selector := selectorOf(t, d.Spec.Selector)
			if !(pod{d.Spec.Template, name}).matches(selector) {
				t.Errorf("%s doesn't select its own pods", name)
			}
			for _, s := range d.Spec.Template.Spec.TopologySpreadConstraints {
				if s.LabelSelector.String() != d.Spec.Selector.String() {
					t.Errorf("%s is spread against other pods", name)
				}
			}
		}
		for _, name := range []string{"event", "daemon"} {
			d := c.deployments[name]
			if d.Spec.Replicas == nil || *d.Spec.Replicas != 2 {
				t.Errorf("%s: not two", name)
			}
			if s := d.Spec.Template.Spec.TopologySpreadConstraints[0]; s.TopologyKey != corev1.LabelHostname || s.WhenUnsatisfiable != corev1.DoNotSchedule {
				t.Errorf("%s: two may stand on one host", name)
			}
		}
	})
}

// The overlay that docs/DEPLOYING.md shows changes the image and the command of the worker, the version of our image elsewhere, and
// nothing else.
func TestPageReplacesTheWorker(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(deployingPage)
	pipelinetest.Must(t, err)
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/DEPLOYING.md shows no overlay")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	pipelinetest.Must(t, err)
	overlays, err := filepath.Abs("k8s/overlays")
	pipelinetest.Must(t, err)
	from, err := filepath.Rel(dir, overlays)
	pipelinetest.Must(t, err)
	to, err := filepath.Rel(overlays, dir)
	pipelinetest.Must(t, err)
	text := strings.Replace(string(block[1]), "../production", from+"/production", 1)
	pipelinetest.Must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600))
	got, want := built(t, to), built(t, "production")
	for _, p := range want.pods() {
		c := p.container()
		c.Image = "duetime:1.0"
		if p.name == "worker" {
			c.Image, c.Command = "shop:1.0", []string{"/shop", "--config", "/configs/duetime.yaml"}
		}
	}
	if diff := cmp.Diff(want.deployments, got.deployments) + cmp.Diff(want.jobs, got.jobs) + cmp.Diff(want.configs, got.configs) +
		cmp.Diff(want.policies, got.policies) + cmp.Diff(want.scalers, got.scalers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Who applies the Job makes it anew, since its template can't be changed. A Job that removed itself would be made again and
// again.
func TestMigrateIsMadeAnew(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		j := c.jobs["migrate"]
		want := map[string]string{
			"argocd.argoproj.io/hook": "Sync", "argocd.argoproj.io/hook-delete-policy": "BeforeHookCreation",
			"kustomize.toolkit.fluxcd.io/force": "enabled",
		}
		if diff := cmp.Diff(want, j.Annotations); diff != "" || j.Spec.TTLSecondsAfterFinished != nil {
			t.Errorf("it removes itself after %v s; annotations (-want +got):\n%s", j.Spec.TTLSecondsAfterFinished, diff)
		}
	})
}

// The recipes of the docs, and Argo CD by its waves, run the Job with all that it needs before they make a Deployment. The wave
// between is for grants.
func TestMigrateComesFirst(t *testing.T) {
	first := selectorOfFirst(t, deployingPage)
	if other := selectorOfFirst(t, runbooksPage); other.String() != first.String() {
		t.Errorf("%s applies %s, %s %s", runbooksPage, other, deployingPage, first)
	}
	each(t, func(t *testing.T, c *cluster) {
		for _, o := range slices.Concat(objects(c.namespaces), objects(c.accounts), objects(c.configs), objects(c.policies), objects(c.jobs)) {
			if wave := o.GetAnnotations()[syncWave]; !first.Matches(labels.Set(o.GetLabels())) || wave != "" {
				t.Errorf("%s comes later, in wave %q", o.GetName(), wave)
			}
		}
		for _, o := range slices.Concat(objects(c.deployments), objects(c.scalers)) {
			if wave := o.GetAnnotations()[syncWave]; first.Matches(labels.Set(o.GetLabels())) || wave != "2" {
				t.Errorf("%s comes with the Job, or in wave %q", o.GetName(), wave)
			}
		}
	})
}

// Pages with commands and overlays for Kubernetes.
const (
	deployingPage = "../docs/DEPLOYING.md"
	runbooksPage  = "../docs/runbooks/README.md"
)

// selectorOfFirst is the selector by which a page applies the Job alone.
func selectorOfFirst(t *testing.T, page string) labels.Selector {
	t.Helper()
	text, err := os.ReadFile(page)
	pipelinetest.Must(t, err)
	line := regexp.MustCompile(`apply -k \S+ -l '(\S+)'`).FindSubmatch(text)
	if line == nil {
		t.Fatalf("%s doesn't apply the Job alone", page)
	}
	selector, err := labels.Parse(string(line[1]))
	pipelinetest.Must(t, err)
	return selector
}

// The page of the runbooks stops every Deployment but event, workers by their scaler, waits for the pods, and starts as many daemons as
// there were.
func TestRunbooksStopWhatWrites(t *testing.T) {
	t.Parallel()
	c := built(t, "production")
	text, err := os.ReadFile(runbooksPage)
	pipelinetest.Must(t, err)
	want := slices.DeleteFunc(slices.Sorted(maps.Keys(c.deployments)), func(name string) bool { return name == "event" })
	var stopped []string
	for _, m := range stopLine.FindAllStringSubmatch(string(text), -1) {
		stopped = append(stopped, strings.Fields(m[1]+" "+m[2])...)
	}
	slices.Sort(stopped)
	if diff := cmp.Diff(want, stopped); diff != "" {
		t.Errorf("stopped (-want +got):\n%s", diff)
	}
	wait := regexp.MustCompile(`wait pod -l '(.+)' --for=delete`).FindSubmatch(text)
	if wait == nil {
		t.Fatal("it doesn't wait for the pods' end")
	}
	waited, err := labels.Parse(string(wait[1]))
	pipelinetest.Must(t, err)
	for name, d := range c.deployments {
		if got := (pod{d.Spec.Template, name}).matches(waited); got != slices.Contains(want, name) {
			t.Errorf("it waits for the pods of %s: %v", name, got)
		}
	}
	start := fmt.Sprintf("scale deployment daemon --replicas=%d\n", *c.deployments["daemon"].Spec.Replicas)
	if !strings.Contains(string(text), start) {
		t.Errorf("it doesn't %s", start)
	}
}

// stopLine is a command that stops Deployments, or the one of a scaler.
var stopLine = regexp.MustCompile(
	`(?m)^kubectl -n duetime (?:scale deployment (.+) --replicas=0|annotate scaledobject (\S+) \S+/paused-replicas=0)`)

// syncWave is the annotation by which Argo CD orders what it applies.
const syncWave = "argocd.argoproj.io/sync-wave"

func objects[O metav1.Object](byName map[string]O) []metav1.Object {
	var all []metav1.Object
	for _, o := range byName {
		all = append(all, o)
	}
	return all
}

// A budget holds for the pods of one Deployment, lets one go and keeps one.
func TestBudgets(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		for name, b := range c.budgets {
			selector := selectorOf(t, b.Spec.Selector)
			for _, p := range c.pods() {
				if p.matches(selector) != (p.name == name) {
					t.Errorf("budget %s against pod %s", name, p.name)
				}
			}
			if b.Spec.MaxUnavailable.IntValue() != 1 {
				t.Errorf("budget %s: %v", name, b.Spec.MaxUnavailable)
			}
		}
		for name := range c.deployments {
			if c.budgets[name] == nil {
				t.Errorf("%s has no budget", name)
			}
		}
	})
}

func selectorOf(t *testing.T, s *metav1.LabelSelector) labels.Selector {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	pipelinetest.Must(t, err)
	return selector
}
