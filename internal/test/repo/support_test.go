package repo_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const supportPage = "docs/SUPPORT.md"

// TestSupportNamesWhatIsTested compares the page with the files that pin what the tests, the image and a release use.
func TestSupportNamesWhatIsTested(t *testing.T) {
	t.Parallel()
	lines := strings.Split(textOf(t, supportPage), "\n")
	release := source{t, "scripts/release"}.text(`platforms=\(([^)]+)\)`)
	for row, versions := range map[string][]string{
		"| MySQL | from 8.0 |": {source{t, "docker-compose.yml"}.text(`image: mysql:([\d.]+)`)},
		"| | | 8.":             {source{t, "scripts/mysql/fetch"}.text(`server=\$cache/mysql-([\d.]+)`)},
		"| Vitess |":           {source{t, "internal/test/vitess/go.mod"}.text(`vitess.io/vitess v0\.(\d+)\.`)},
		"| SQLite |":           {source{t, "go.mod"}.text(`modernc.org/sqlite (v[\d.]+)`)},
		"| Valkey |":           {source{t, "docker-compose.yml"}.text(`valkey/valkey:([\d.]+)`)},
		"| Kafka |":            {source{t, "scripts/kafka/pom.xml"}.text(`kafka_2.13</artifactId>\s*<version>([\d.]+)<`)},
		"| ZooKeeper |":        {source{t, "docker-compose.yml"}.text(`image: zookeeper:([\d.]+)`)},
		"| Go |":               {source{t, "go.mod"}.text(`\ngo (\d+\.\d+)`), source{t, "Dockerfile"}.text(`golang:([\d.]+)`)},
		"| | releases for":     strings.Fields(release),
		"| TiDB,":              productNames(t),
	} {
		line := lineWith(lines, row)
		if line == "" {
			t.Errorf("%s has no row %q", supportPage, row)
		}
		for _, version := range versions {
			if !strings.Contains(line, version) {
				t.Errorf("%s does not name %s in the row %s", supportPage, version, line)
			}
		}
	}
}

// TestSupportNamesWhatANightlyRunWasOn compares the table with the versions that the last green nightly run has found.
func TestSupportNamesWhatANightlyRunWasOn(t *testing.T) {
	t.Parallel()
	ran := source{t, supportPage}.text(`<!-- tested -->\n(.*)\n<!-- end of tested -->`)
	tested := regexp.MustCompile(`(?m)^\| (?:MySQL|MariaDB|Redis|Valkey|Kafka|ZooKeeper|Go|Node.js|Python|) ?\|[^|]*\| (\d[\d.]+) \|`)
	rows := tested.FindAllStringSubmatch(textOf(t, supportPage), -1)
	if len(rows) < 10 {
		t.Errorf("only %d rows were found", len(rows))
	}
	for _, row := range rows {
		if !strings.Contains(ran, " "+row[1]) {
			t.Errorf("%s names %s, which the last nightly run was not on: %s", supportPage, row[1], ran)
		}
	}
}

// TestSupportNamesCommands looks for each script and target that the page names.
func TestSupportNamesCommands(t *testing.T) {
	t.Parallel()
	page, makefile := textOf(t, supportPage), textOf(t, "Makefile")
	targets := regexp.MustCompile("`make ([\\w-]+)`").FindAllStringSubmatch(page, -1)
	scripts := regexp.MustCompile("`(scripts/[\\w-]+)`").FindAllStringSubmatch(page, -1)
	if len(targets) < 5 || len(scripts) < 3 {
		t.Errorf("only %d targets and %d scripts were found", len(targets), len(scripts))
	}
	for _, m := range targets {
		if !strings.Contains(makefile, "\n"+m[1]+":") {
			t.Errorf("the Makefile has no target %s", m[1])
		}
	}
	for _, m := range scripts {
		if _, err := os.Stat(m[1]); err != nil {
			t.Error(err)
		}
	}
}

// productNames are the servers that the store refuses.
func productNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^\t\{"[^"]+", "([^"]+)"\},$`).FindAllStringSubmatch(textOf(t, "internal/store/product.go"), -1) {
		names = append(names, m[1])
	}
	if len(names) < 5 {
		t.Errorf("internal/store/product.go refuses only %v", names)
	}
	return names
}

// lineWith returns the first line that begins so.
func lineWith(lines []string, prefix string) string {
	for _, line := range lines {
		if strings.HasPrefix(line, prefix) {
			return line
		}
	}
	return ""
}

func textOf(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	pipelinetest.Must(t, err)
	return string(text)
}
