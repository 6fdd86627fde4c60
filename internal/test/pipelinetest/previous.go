package pipelinetest

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // for the archive
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// previous is the sources of the last version before the newest migration: what still runs while that migration is rolled
// out. Each further migration needs a newer one, which scripts/previous makes.
//
//go:embed previous.tar.gz
var previous []byte

// previousCommands compiles all commands of the previous version and returns their folder. They are kept between runs.
var previousCommands = sync.OnceValues(func() (string, error) {
	name := fmt.Sprintf("previous-%x-%s", sha256.Sum256(previous), runtime.Version())
	return cached(name, func(dir string) error {
		source, err := os.MkdirTemp("", runPrefix+"previous-")
		if err != nil {
			return fmt.Errorf("make a folder for the previous version: %w", err)
		}
		defer func() { _ = os.RemoveAll(source) }()
		if err := inFolder(source, previous, "tar", "-xzf", "-"); err != nil {
			return err
		}
		return inFolder(source, nil, "go", "build", "-buildvcs=false", "-o", dir+"/", "./cmd/...")
	})
})

// inFolder runs a program that reads its input there; its error has what the program said.
func inFolder(dir string, input []byte, name string, args ...string) error {
	cmd := exec.Command(name, args...) //nolint:gosec,noctx // our own arguments
	cmd.Dir, cmd.Env, cmd.Stdin = dir, append(os.Environ(), "CGO_ENABLED=0"), bytes.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, args[0], err, out)
	}
	return nil
}

// command returns the binary of one of our commands, in the version that the deployment runs.
func (d Deployment) command(t testing.TB, name string) string {
	t.Helper()
	if !d.Previous {
		return Build(t, "./cmd/"+name)
	}
	dir, err := previousCommands()
	Must(t, err)
	return filepath.Join(dir, name)
}
