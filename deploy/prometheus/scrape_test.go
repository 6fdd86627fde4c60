package prometheus_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// podDiscovery stands in for Prometheus's own reader of kubernetes_sd_configs, which brings all of Kubernetes' client.
type podDiscovery struct {
	discovery.Config `yaml:"-"`

	Role       string `yaml:"role"`
	Namespaces struct {
		Names []string `yaml:"names"`
	} `yaml:"namespaces"`
}

func (podDiscovery) Name() string { return "kubernetes" }

func init() { discovery.RegisterConfig(&podDiscovery{}) }

// jobs parses a configuration as Prometheus does.
func jobs(t *testing.T, file string) []*config.ScrapeConfig {
	t.Helper()
	cfg, err := config.LoadFile(file, false, slog.New(slog.DiscardHandler))
	pipelinetest.Must(t, err)
	if want := []string{rulesFile}; !cmp.Equal(want, cfg.RuleFiles) {
		t.Errorf("%s loads the rules of %v", file, cfg.RuleFiles)
	}
	return cfg.ScrapeConfigs
}

func TestPrometheusTakesTheConfiguration(t *testing.T) {
	t.Parallel()
	if n := len(jobs(t, "prometheus.yaml")); n != 5 {
		t.Errorf("%d jobs, want one for each kind of process that scripts/up starts", n)
	}
}

var (
	podLabels = regexp.MustCompile(`(?m)^      labels: \{app\.kubernetes\.io/name: (\S+), app\.kubernetes\.io/component: (\S+)\}$`)
	adminPort = regexp.MustCompile(`\{name: admin, containerPort: (\d+)\}`)
)

// TestKubernetesPodsAreScraped relabels the pods of deploy/k8s as Prometheus does: it scrapes each process once, at its admin
// port, under its own name, and nothing else.
func TestKubernetesPodsAreScraped(t *testing.T) {
	t.Parallel()
	all := jobs(t, "kubernetes.yaml")
	if len(all) != 1 || !all[0].HonorLabels {
		t.Fatalf("want one job, which honors duetime's label namespace: %+v", all)
	}
	job := all[0]
	if d, ok := job.ServiceDiscoveryConfigs[0].(*podDiscovery); !ok || d.Role != "pod" || !cmp.Equal(d.Namespaces.Names, []string{"duetime"}) {
		t.Errorf("it looks for %+v", job.ServiceDiscoveryConfigs)
	}
	shared, err := os.ReadFile("../k8s/components/process/rolling.yaml")
	pipelinetest.Must(t, err)
	if adminPort.FindSubmatch(shared) == nil {
		t.Fatal("the processes have no port admin")
	}
	files, err := filepath.Glob("../k8s/*/*.yaml")
	pipelinetest.Must(t, err)
	scraped := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		pipelinetest.Must(t, err)
		m := podLabels.FindSubmatch(text)
		if m == nil || !strings.Contains(string(text), "\nkind: Deployment\n") {
			continue
		}
		name, component := string(m[1]), string(m[2])
		ports := []string{"api", "console"}
		if component != "console" { // rolling.yaml leaves it alone
			ports = append(ports, "admin")
		}
		for _, port := range ports {
			target, kept := relabel.Process(discovered(name, component, port, "Running"), job.RelabelConfigs...)
			if !kept {
				continue
			}
			if port != "admin" || target.Get("job") != "duetime-"+component || target.Get("__address__") != address {
				t.Errorf("%s: port %s is scraped as %s", component, port, target)
			}
			scraped[component] = target.Get("instance")
		}
	}
	want := map[string]string{}
	for _, component := range []string{"api", "daemon", "event", "game", "worker"} {
		want[component] = component + "-1"
	}
	if diff := cmp.Diff(want, scraped); diff != "" {
		t.Errorf("scraped (-want +got):\n%s", diff)
	}
	for _, other := range []labels.Labels{discovered("shop", "worker", "admin", "Running"), discovered("duetime", "worker", "admin", "Failed")} {
		if _, kept := relabel.Process(other, job.RelabelConfigs...); kept {
			t.Errorf("%s is scraped", other)
		}
	}
}

const address = "10.0.0.1:9090"

// discovered is a target as Prometheus makes it of a pod's port.
func discovered(name, component, port, phase string) labels.Labels {
	return labels.FromStrings(
		"job", "duetime", "__address__", address, "__meta_kubernetes_namespace", "duetime",
		"__meta_kubernetes_pod_name", component+"-1", "__meta_kubernetes_pod_phase", phase,
		"__meta_kubernetes_pod_label_app_kubernetes_io_name", name,
		"__meta_kubernetes_pod_label_app_kubernetes_io_component", component,
		"__meta_kubernetes_pod_container_port_name", port,
	)
}
