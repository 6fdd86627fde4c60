package repo_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// repository is a git repository of its own with the recipe of a release and a changelog that has version 0.1.0.
type repository struct{ dir, cache string }

func newRepository(t *testing.T) repository {
	t.Helper()
	r := repository{t.TempDir(), t.TempDir()}
	pipelinetest.Must(t, os.Mkdir(filepath.Join(r.dir, "scripts"), 0o700))
	for _, script := range []string{"scripts/release", "scripts/nightly"} {
		recipe, err := os.ReadFile(script)
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, os.WriteFile(filepath.Join(r.dir, script), recipe, 0o700))
	}
	r.write(t, "CHANGELOG.md", "# Changelog\n\n## [0.1.0] - 2026-11-27\n\n## [0.1.1]\n")
	r.git(t, "init", "-q")
	r.git(t, "add", ".")
	r.git(t, "commit", "-q", "-m", "all: begin")
	return r
}

func (r repository) write(t *testing.T, name, text string) {
	t.Helper()
	pipelinetest.Must(t, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600))
}

func (r repository) git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=test", "-c", "user.email=test"}, args...)...)
	cmd.Dir = r.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", args, err, out)
	}
	return string(out)
}

// A release is refused, with the reason, before anything is built or tagged.
func TestReleaseRefuses(t *testing.T) {
	t.Parallel()
	clean := func(*testing.T, repository) {}
	for name, c := range map[string]struct {
		version string
		spoil   func(t *testing.T, r repository)
		says    string
	}{
		"two parts":         {"v0.1", clean, "v0.1 is not a version such as v0.1.0"},
		"another path":      {"v2.0.0", clean, "v2.0.0 is not a version such as v0.1.0"},
		"no entry":          {"v0.2.0", clean, `CHANGELOG.md has no entry "## [0.2.0] - " with the day`},
		"entry without day": {"v0.1.1", clean, `CHANGELOG.md has no entry "## [0.1.1] - " with the day`},
		"changed file": {"v0.1.0", func(t *testing.T, r repository) {
			t.Helper()
			r.write(t, "CHANGELOG.md", "# Changelog\n\n## [0.1.0] - 2026-11-28\n")
		}, "there are changes that no commit has: M CHANGELOG.md"},
		"new file": {"v0.1.0", func(t *testing.T, r repository) {
			t.Helper()
			r.write(t, "fresh.go", "package duetime\n")
		}, "there are changes that no commit has: ?? fresh.go"},
		"tagged": {"v0.1.0", func(t *testing.T, r repository) {
			t.Helper()
			r.git(t, "tag", "v0.1.0")
		}, "there is a tag v0.1.0 already"},
		"no nightly run": {"v0.1.0", clean, "no nightly run was green here: run make nightly"},
		"old nightly run": {"v0.1.0", func(t *testing.T, r repository) {
			t.Helper()
			old := time.Now().Add(-200 * time.Hour).Unix()
			pipelinetest.Must(t, os.WriteFile(filepath.Join(r.cache, "nightly"), fmt.Appendf(nil, "%d abc\n", old), 0o600))
		}, "the last green nightly run is 200 hours old, of commit abc: run make nightly"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t)
			c.spoil(t, r)
			before := r.git(t, "show-ref")
			cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(r.dir, "scripts/release"), c.version)
			cmd.Env = append(os.Environ(), "DUETIME_TEST_CACHE="+r.cache)
			out, err := cmd.CombinedOutput()
			if want := "release: " + c.says + "\n"; err == nil || string(out) != want {
				t.Errorf("said %q (%v), want %q", out, err, want)
			}
			if after := r.git(t, "show-ref"); after != before {
				t.Errorf("it changed what git has: %s, before %s", after, before)
			}
		})
	}
}

// go install of a version refuses a module that replaces or excludes others. scripts/release --check tries the rest of it.
func TestModuleCanBeInstalled(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("go.mod")
	pipelinetest.Must(t, err)
	if found := regexp.MustCompile(`(?m)^(replace|exclude)\b.*`).FindString(string(text)); found != "" {
		t.Errorf("go install of a version refuses go.mod for: %s", found)
	}
}

// The changelog has an entry for each released version, the newest first.
func TestChangelog(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("CHANGELOG.md")
	pipelinetest.Must(t, err)
	titles := regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(string(text), -1)
	if len(titles) < 2 || titles[0][1] != "[Unreleased]" {
		t.Fatalf("the first entry must be [Unreleased]: %v", titles)
	}
	released := regexp.MustCompile(`^\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}$`)
	for _, title := range titles[1:] {
		if !released.MatchString(title[1]) {
			t.Errorf("%q is no version with its day", strings.TrimSpace(title[1]))
		}
	}
}
