package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A section that can't be meant is refused, by the full names of its keys.
func TestConsoleSectionIsRefused(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"payloads: nobody":                                        "console.payloads",
		"listen: here":                                            "console.listen",
		"proxies: [10.0.0.0/8]":                                   "console.proxies: needs",
		"proxies: [ten], roles: ['*=read']":                       "console.proxies: \"ten\"",
		"roles: ['*=read']":                                       "have no use without console.proxies",
		"proxies: [10.0.0.1], roles: [ann]":                       "console.roles: \"ann\"",
		"users: a, users_file: b":                                 "console.users_file: has no use",
		"proxies: [10.0.0.1], user_header: '', roles: ['*=read']": "console.user_header",
	} {
		_, err := parse([]byte("console: {"+text+"}"), nil, DefaultConsole())
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", text, err, says)
		}
	}
}

// The section is read from file, environment and secret files, never printed, and ignored by programs without it.
func TestConsoleSection(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("bot:read:hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	data := []byte("console: {listen: 8091, users: 'ann:read:hunter2', tokens_file: " + file + ", payloads: operate}")
	c := DefaultConsole()
	environ := []string{"DUETIME_CONSOLE__PROXIES=10.0.0.0/8,::1", "DUETIME_CONSOLE__ROLES=*=read,ann=operate(move+cancel)"}
	cfg, err := parse(data, environ, c)
	if err != nil {
		t.Fatal(err)
	}
	users, err := c.UsersSecret()
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := c.TokensSecret()
	if err != nil {
		t.Fatal(err)
	}
	if string(users) != "ann:read:hunter2" || string(tokens) != "bot:read:hunter2" {
		t.Error("the secrets differ")
	}
	if c.Listen != "127.0.0.1:8091" || !c.HidesPayloads() {
		t.Errorf("read %+v", *c)
	}
	if len(c.Proxies) != 2 || len(c.Roles) != 2 || c.Roles[1] != "ann=operate(move+cancel)" {
		t.Errorf("read %v and %v", c.Proxies, c.Roles)
	}
	if text := Print(cfg, c) + fmt.Sprintf("%v %+v", *c, c); strings.Contains(text, "hunter2") {
		t.Errorf("printed %s", text)
	}
	if _, err := parse(data, nil); err != nil {
		t.Errorf("a program without the section: %v", err)
	}
}

func TestOnLoopback(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, ":1": true, "1": true,
		"[::ffff:127.0.0.1]:1": true,
		"0.0.0.0:1":            false, "[::]:1": false, "10.0.0.1:1": false, "duetime.example:1": false,
		"localhost.example:1": false, "": false,
	} {
		if got := OnLoopback(addr); got != want {
			t.Errorf("%q: got %v", addr, got)
		}
	}
}
