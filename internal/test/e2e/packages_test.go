package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// TestPackages has the packages of clients/ built and installed. Their own tests then schedule through the API, and receive what a
// worker pushes. TestShopByHTTP makes the same calls meanwhile.
func TestPackages(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	const secret, token = "whsec_c2VjcmV0IG9mIHRoZSBwYWNrYWdlcycgdGVzdHM=", "packages-0123456789abcdef"
	typescript, python := pipelinetest.Address(t), pipelinetest.Address(t)
	p := pipelinetest.Deployment{
		DSN: pipelinetest.MySQL(t).NewSchema(t), Redis: pipelinetest.Redis(t).Addr(), ZooKeeper: pipelinetest.ZooKeeper(t).Addr(),
		Kafka: pipelinetest.Kafka(t).Addr(), Namespace: pipelinetest.Namespace(t), Config: filepath.Join(t.TempDir(), "duetime.yaml"),
		Rules: []string{"DUETIME_KAFKA__PARTITIONS=4", "CLIENT_SECRET=" + secret},
	}
	pipelinetest.Must(t, os.WriteFile(p.Config, fmt.Appendf(nil, `
queues: [default, push]
api:
  tokens: '[{name: packages, role: schedule, token: %s}]'
deliver:
  allow: [127.0.0.1/32]
  kinds:
    client.typescript: {url: "http://%s/", queue: push, secrets_env: CLIENT_SECRET}
    client.python: {url: "http://%s/", queue: push, secrets_env: CLIENT_SECRET}
`, token, typescript, python), 0o600))
	p.Migrate(t)
	api := p.Ready(t, "api")
	p.Ready(t, "worker")
	cmd := exec.CommandContext(t.Context(), "../../../scripts/packages", t.TempDir())
	cmd.Env = append(os.Environ(), "DUETIME_API="+api.URL(t, "api"), "DUETIME_TOKEN="+token, "DUETIME_SECRET="+secret,
		"DUETIME_LISTEN_TYPESCRIPT="+typescript, "DUETIME_LISTEN_PYTHON="+python)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
