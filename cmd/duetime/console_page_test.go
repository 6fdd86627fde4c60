package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/consoleweb"
)

// onFile runs the tool on a configuration, and returns what it wrote.
func onFile(t *testing.T, config, in string, args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "duetime.yaml")
	pipelinetest.Must(t, os.WriteFile(file, []byte(config), 0o600))
	var out bytes.Buffer
	root := (&tool{in: strings.NewReader(in), out: &out, errs: io.Discard}).root()
	root.SetArgs(append(args, "--config", file))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// The hash that the tool writes is one that the page takes.
func TestConsoleHash(t *testing.T) {
	t.Parallel()
	hash, err := onFile(t, "", "correct horse battery\n", "console", "--hash")
	pipelinetest.Must(t, err)
	users, err := consoleweb.ParseUsers("ann:read:" + hash)
	pipelinetest.Must(t, err)
	_, err = consoleweb.Handler(new(console.Console), consoleweb.Config{Users: users})
	if err != nil || !strings.HasPrefix(hash, "pbkdf2-sha256$") {
		t.Errorf("%s: %v", hash, err)
	}
	for _, in := range []string{"", "\n", "short\n"} {
		if hash, err := onFile(t, "", in, "console", "--hash"); err == nil {
			t.Errorf("the password %q has the hash %s", in, hash)
		}
	}
}

// Off loopback nothing is served before somebody is told who may sign in. No server is asked for that.
func TestConsoleRefusesToServeOthers(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", "10.0.0.1:0", "duetime.example:0"} {
		_, err := onFile(t, "", "", "console", "--listen", addr)
		if err == nil || !strings.Contains(err.Error(), "set console.users, console.tokens or console.proxies") {
			t.Errorf("%s: %v", addr, err)
		}
		_, err = onFile(t, "console: {listen: '"+addr+"'}", "", "console")
		if err == nil || !strings.Contains(err.Error(), "others reach "+addr) {
			t.Errorf("console.listen %s: %v", addr, err)
		}
	}
	for config, says := range map[string]string{
		"console: {users: 'ann:root:correct-horse'}":         "console.users: entry 1",
		"console: {tokens: 'bot'}":                           "console.tokens: entry 1",
		"console: {users: '# ann'}":                          "console.users: names nobody",
		"console: {tokens: ' '}":                             "console.tokens: names nobody",
		"console: {users_file: /nowhere/at/all}":             "console.users_file",
		"console: {proxies: [10.0.0.1], roles: ['ann=fly']}": "console.proxies",
	} {
		if _, err := onFile(t, config, "", "console"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", config, err)
		}
	}
}
