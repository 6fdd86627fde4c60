package deploy_test

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// talksTo are the servers that a process can't do without, by the key of its configuration.
var talksTo = map[string][]string{
	"event":   {"mysql", "redis", "kafka", "zookeeper"},
	"daemon":  {"mysql", "redis", "kafka", "zookeeper"},
	"worker":  {"mysql", "redis", "kafka"},
	"game":    {"mysql", "redis", "kafka"},
	"console": {"mysql", "redis", "kafka"},
	"api":     {"mysql", "redis", "kafka"},
	"migrate": {"mysql", "kafka"},
}

// traces are where a collector of OpenTelemetry takes them by HTTP.
const traces = "monitoring:4318"

// serversOf returns namespace:port of each server of a configuration.
func serversOf(t *testing.T, cfg config.Config) map[string]string {
	t.Helper()
	at := map[string]string{"mysql": mysqlAddress, "redis": cfg.Redis.Addrs[0], "kafka": cfg.Kafka.Brokers[0], "zookeeper": cfg.ZooKeeper.Servers[0]}
	for name, address := range at {
		host, port, err := net.SplitHostPort(address)
		parts := strings.Split(host, ".")
		if err != nil || len(parts) < 2 {
			t.Fatalf("%s: %s", name, address)
		}
		at[name] = parts[1] + ":" + port
	}
	return at
}

// Every process reaches its servers, the cluster's names and, if it has an admin address, a collector of traces, and nothing
// else.
func TestPodsReachTheirServersAlone(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		for _, p := range c.pods() {
			servers := serversOf(t, c.configOf(t, p))
			want := map[string]bool{"kube-system:53": true}
			for _, name := range talksTo[p.name] {
				want[servers[name]] = true
			}
			if hasPort(p, "admin") {
				want[traces] = true
			}
			if diff := cmp.Diff(want, c.egress(t, p)); diff != "" {
				t.Errorf("%s reaches (-want +got):\n%s", p.name, diff)
			}
		}
	})
}

// With the component endpoints the workers alone reach endpoints of tasks that are delivered by HTTP, and nothing else changes.
func TestWorkersReachEndpoints(t *testing.T) {
	t.Parallel()
	with, without := built(t, endpoints), built(t, "production")
	for _, p := range without.pods() {
		want := without.egress(t, p)
		if p.name == "worker" {
			want["shop:443"] = true
		}
		if diff := cmp.Diff(want, with.egress(t, p)); diff != "" {
			t.Errorf("%s reaches (-want +got):\n%s", p.name, diff)
		}
	}
}

// The overlay with endpoints has all that delivering needs: the kinds, their secrets' variables, their queues for workers and for
// the Job that makes the topics, and a way out to each endpoint.
func TestWorkersDeliver(t *testing.T) {
	t.Parallel()
	c := built(t, endpoints)
	worker, migrate := pod{c.deployments["worker"].Spec.Template, "worker"}, pod{c.jobs["migrate"].Spec.Template, "migrate"}
	push := config.DefaultDeliver()
	_, err := config.Load(filepath.Join(c.mounted(t, worker), "duetime.yaml"), true, pairs(c.environ(t, worker)), push)
	pipelinetest.Must(t, err)
	if len(push.Kinds) == 0 {
		t.Error("no kind is delivered")
	}
	for _, e := range push.Kinds {
		u, err := url.Parse(e.URL)
		pipelinetest.Must(t, err)
		if at := strings.Split(u.Host, ".")[1] + ":443"; !c.egress(t, worker)[at] || !slices.Contains(push.Allow, u.Host) {
			t.Errorf("%s: no request goes to %s", e.Kind, e.URL)
		}
		if e.SecretsEnv == "" {
			t.Errorf("%s: its secret is in the ConfigMap, or in a file that no pod has", e.Kind)
		}
		if queues := c.configOf(t, migrate).Queues; !slices.Contains(queues, e.Queue) {
			t.Errorf("%s: the Job makes the topics of %v", e.Kind, queues)
		}
	}
	if listens := c.portsOf(t, worker)["admin"]; listens != "0.0.0.0:9090" {
		t.Errorf("the worker listens at %q, where no probe comes", listens)
	}
}

// Whoever measures reaches the admin port; players, operators and callers come in by the ingress; nobody else does.
func TestPodsAreReachedByFew(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		for _, p := range c.pods() {
			want := map[string]bool{}
			if hasPort(p, "admin") {
				want["monitoring:admin"] = true
			}
			for _, port := range []string{"api", "console"} {
				if hasPort(p, port) {
					want["ingress:"+port] = true
				}
			}
			if diff := cmp.Diff(want, c.ingress(t, p)); diff != "" {
				t.Errorf("%s is reached by (-want +got):\n%s", p.name, diff)
			}
		}
	})
}

// A policy that selects nothing, or that a pod is not denied without, is a mistake in its labels.
func TestPoliciesSelectPods(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		for name, policy := range c.policies {
			if !slices.ContainsFunc(c.pods(), func(p pod) bool { return p.matches(selectorOf(t, &policy.Spec.PodSelector)) }) {
				t.Errorf("policy %s selects no pod", name)
			}
			for _, e := range policy.Spec.PodSelector.MatchExpressions {
				for _, value := range e.Values {
					if c.deployments[value] == nil && c.jobs[value] == nil {
						t.Errorf("policy %s names %s, which is not there", name, value)
					}
				}
			}
		}
		deny := c.policies["deny-all"].Spec
		if !selectorOf(t, &deny.PodSelector).Empty() || len(deny.PolicyTypes) != 2 || len(deny.Ingress)+len(deny.Egress) > 0 {
			t.Errorf("deny-all lets something through: %+v", deny)
		}
	})
}

// egress returns namespace:port of all that the policies let a pod reach.
func (c *cluster) egress(t *testing.T, p pod) map[string]bool {
	t.Helper()
	open := map[string]bool{}
	for _, spec := range c.policiesOf(t, p, networkingv1.PolicyTypeEgress) {
		for _, rule := range spec.Egress {
			maps.Copy(open, through(t, rule.To, rule.Ports))
		}
	}
	return open
}

// ingress is egress the other way.
func (c *cluster) ingress(t *testing.T, p pod) map[string]bool {
	t.Helper()
	open := map[string]bool{}
	for _, spec := range c.policiesOf(t, p, networkingv1.PolicyTypeIngress) {
		for _, rule := range spec.Ingress {
			maps.Copy(open, through(t, rule.From, rule.Ports))
		}
	}
	return open
}

func (c *cluster) policiesOf(t *testing.T, p pod, direction networkingv1.PolicyType) []networkingv1.NetworkPolicySpec {
	t.Helper()
	var all []networkingv1.NetworkPolicySpec
	for _, policy := range c.policies {
		if slices.Contains(policy.Spec.PolicyTypes, direction) && p.matches(selectorOf(t, &policy.Spec.PodSelector)) {
			all = append(all, policy.Spec)
		}
	}
	return all
}

// through spells a rule. One without peers or without ports would let everything through.
func through(t *testing.T, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) map[string]bool {
	t.Helper()
	open := map[string]bool{}
	if len(peers) == 0 || len(ports) == 0 {
		open["everything"] = true
	}
	for _, peer := range peers {
		if peer.NamespaceSelector == nil || peer.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] == "" {
			t.Errorf("a peer in any namespace: %+v", peer)
			continue
		}
		for _, port := range ports {
			open[fmt.Sprintf("%s:%s", peer.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"], port.Port)] = true
		}
	}
	return open
}
