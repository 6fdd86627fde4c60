package chaos_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// page is the report that is kept in the repository. Its text is written by hand; what stands between two marks is
// written by make chaos and make soak.
const page = "../../../docs/FAULTS.md"

// writeReport puts text between the page's marks of that name.
func writeReport(t *testing.T, name, text string) {
	t.Helper()
	old, err := os.ReadFile(page)
	pipelinetest.Must(t, err)
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
	head, rest, found := strings.Cut(string(old), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for %s", page, name)
	}
	pipelinetest.Must(t, os.WriteFile(page, []byte(head+begin+text+end+tail), 0o600))
}

// circumstances tell when, with what and how a table was made.
func circumstances(t *testing.T, command string, took time.Duration) string {
	t.Helper()
	pom, err := os.ReadFile("../../../scripts/kafka/pom.xml")
	pipelinetest.Must(t, err)
	kafka := regexp.MustCompile(`kafka_\S+</artifactId>\s*<version>([^<]+)<`).FindSubmatch(pom)
	versions := []string{pipelinetest.MySQL(t).Version(t), versionOf(t, "redis-server"), "Apache Kafka " + string(kafka[1])}
	jars, err := filepath.Glob("/usr/share/java/zookeeper-[0-9]*.jar")
	pipelinetest.Must(t, err)
	for _, path := range jars {
		versions = append(versions, strings.TrimSuffix(filepath.Base(path), ".jar"))
	}
	return fmt.Sprintf("%s, `%s`, %v, on %d cores: %s, %s.\n\n", time.Now().UTC().Format("2006-01-02"), command, took.Round(time.Second),
		runtime.NumCPU(), strings.Join(versions, ", "), runtime.Version())
}

// versionOf returns the first line that a server prints of itself.
func versionOf(t *testing.T, server string) string {
	t.Helper()
	path, err := exec.LookPath(server)
	if err != nil {
		path = "/usr/sbin/" + server
	}
	out, err := exec.CommandContext(t.Context(), path, "--version").Output()
	pipelinetest.Must(t, err)
	fields := strings.Fields(string(out))
	for i, f := range fields {
		if v, ok := strings.CutPrefix(f, "v="); ok {
			return server + " " + v
		}
		if f == "Ver" {
			return server + " " + fields[i+1]
		}
	}
	return server
}
