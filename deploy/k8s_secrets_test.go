package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/duetime/duetime/internal/api"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// tlsSecret has the certificates, which somebody else makes.
const tlsSecret = "tls"

// consoleUser is who signs in to the console of a test.
const consoleUser = "ann:operate:correct-horse"

// apiTokens are who calls the API of a test, as secrets.yaml spells such a list.
const (
	apiToken  = "shop-0123456789abcdef"
	apiTokens = "[{name: shop, role: operate, token: " + apiToken + "}]"
)

// exampleSecrets is k8s/secrets.yaml with values that nobody checks.
func exampleSecrets(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("k8s/secrets.yaml")
	pipelinetest.Must(t, err)
	return os.Expand(string(text), func(name string) string {
		switch name {
		case "MYSQL":
			return mysqlAddress
		case "SCHEMA":
			return namespace
		case "CONSOLE_USERS":
			return consoleUser
		case "API_TOKENS":
			return apiTokens
		}
		return "password"
	})
}

// readSecrets reads the Secrets of a text by their names.
func readSecrets(t *testing.T, text string) map[string]*corev1.Secret {
	t.Helper()
	all := map[string]*corev1.Secret{}
	for _, document := range strings.Split(text, "\n---\n") {
		s := new(corev1.Secret)
		pipelinetest.Must(t, unmarshalStrict([]byte(document), s))
		if s.Kind != "Secret" || s.Namespace != namespace {
			t.Errorf("%s %s in namespace %q", s.Kind, s.Name, s.Namespace)
		}
		all[s.Name] = s
	}
	return all
}

// Every pod has its Secret in secrets.yaml, and every Secret there has its pod: in production, or in the game.
func TestSecretsAreThoseOfThePods(t *testing.T) {
	t.Parallel()
	var want []string
	for _, overlay := range overlays {
		for _, p := range built(t, overlay).pods() {
			want = append(want, secretOf(p.name))
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(slices.Compact(want), slices.Sorted(maps.Keys(readSecrets(t, exampleSecrets(t))))); diff != "" {
		t.Errorf("the pods' Secrets, and those of secrets.yaml (-want +got):\n%s", diff)
	}
}

// docs/DEPLOYING.md makes each Secret of small, with the keys that its pod needs, and no other.
func TestPageMakesTheSecretsOfSmall(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(deployingPage)
	pipelinetest.Must(t, err)
	made := map[string][]string{}
	for _, m := range createSecret.FindAllStringSubmatch(strings.ReplaceAll(string(page), "\\\n", ""), -1) {
		for _, name := range strings.Fields(strings.Replace(m[2], "$s", m[1], 1)) {
			for _, key := range literalKey.FindAllStringSubmatch(m[3], -1) {
				made[name] = append(made[name], key[1])
			}
		}
	}
	want := map[string][]string{}
	for _, p := range built(t, "small").pods() {
		want[secretOf(p.name)] = []string{"DUETIME_MYSQL__DSN"}
	}
	want["api"] = append(want["api"], "DUETIME_API__TOKENS")
	want["operator"] = append(want["operator"], "DUETIME_CONSOLE__USERS")
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("the Secrets of small, and those that the page makes (-want +got):\n%s", diff)
	}
}

// The lines of docs/DEPLOYING.md that make Secrets, one or those of a loop.
var (
	createSecret = regexp.MustCompile(`(?m)^(?:for s in (.+); do )?kubectl -n duetime create secret generic (\S+) (--from-literal.*)$`)
	literalKey   = regexp.MustCompile(`--from-literal=(\w+)=`)
)

// The API of every overlay takes the tokens of its Secret. What stands in front of it ends TLS.
func TestAPITakesItsTokens(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		_, _, _, section := c.load(t, pod{c.deployments["api"].Spec.Template, "api"})
		text, err := section.TokensSecret()
		pipelinetest.Must(t, err)
		if tokens, err := api.ParseTokens(string(text)); err != nil || len(tokens) != 1 || tokens[0].Token != apiToken || !section.TLS.Terminated {
			t.Errorf("%d tokens are read, TLS is %+v: %v", len(tokens), section.TLS, err)
		}
	})
}

// In production every link is encrypted and has a user of its own; only a process that speaks to ZooKeeper has our own
// certificate.
func TestProductionIsSecured(t *testing.T) {
	t.Parallel()
	c := built(t, "production")
	for _, p := range c.pods() {
		cfg, user := c.configOf(t, p), "duetime_"+secretOf(p.name)
		speaks := talksTo[p.name]
		if !strings.HasPrefix(string(cfg.MySQL.DSN), user+":") {
			t.Errorf("%s comes to MySQL as somebody else", p.name)
		}
		for server, link := range map[string]struct{ authority, user, want string }{
			"mysql": {cfg.MySQL.TLS.CAFile, user, user}, "redis": {cfg.Redis.TLS.CAFile, cfg.Redis.Username, user},
			"kafka":     {cfg.Kafka.TLS.CAFile, cfg.Kafka.SASL.Username, user},
			"zookeeper": {cfg.ZooKeeper.TLS.CAFile, cfg.ZooKeeper.Username, "duetime"},
		} {
			if slices.Contains(speaks, server) && (link.authority != "/tls/ca.crt" || link.user != link.want) {
				t.Errorf("%s: to %s as %q, whose authority is %q", p.name, server, link.user, link.authority)
			}
		}
		want := []string{"ca.crt"}
		if slices.Contains(speaks, "zookeeper") {
			want = append(want, "tls.crt", "tls.key")
		}
		if diff := cmp.Diff(want, certificatesOf(t, p)); diff != "" {
			t.Errorf("%s: certificates (-want +got):\n%s", p.name, diff)
		}
	}
}

// certificatesOf returns the files that the pod has of the Secret tls.
func certificatesOf(t *testing.T, p pod) []string {
	t.Helper()
	var files []string
	for _, v := range p.Spec.Volumes {
		if v.Secret == nil {
			continue
		}
		if v.Secret.SecretName != tlsSecret ||
			!slices.Contains(p.container().VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: "/tls", ReadOnly: true}) {
			t.Errorf("%s: Secret %s is not mounted at /tls", p.name, v.Secret.SecretName)
		}
		for _, item := range v.Secret.Items {
			files = append(files, filepath.Base(item.Path))
		}
	}
	return files
}
