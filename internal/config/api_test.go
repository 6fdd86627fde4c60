package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A section that can't be meant, or that would let everybody in, is refused by the full names of its keys.
func TestAPISectionIsRefused(t *testing.T) {
	t.Parallel()
	for text, says := range map[string][]string{
		"listen: here":                         {"api.listen"},
		"admin: here":                          {"api.admin"},
		"tls: {cert_file: a}":                  {"api.tls.cert_file: goes with"},
		"tls: {key_file: a}":                   {"api.tls.cert_file: goes with"},
		"listen: '0.0.0.0:1'":                  {"api.tokens_file: is needed", "api.tls.cert_file: is needed"},
		"listen: '10.0.0.1:1', tokens_file: a": {"api.tls.cert_file: is needed"},
		"listen: '[::]:1', tls: {cert_file: a, key_file: b}": {"api.tokens_file: is needed"},
	} {
		_, err := parse([]byte("api: {"+text+"}"), nil, DefaultAPI())
		for _, part := range says {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: got %v, want %q", text, err, part)
			}
		}
	}
}

// The section is read from file and environment, and ignored by programs without it.
func TestAPISection(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(file, []byte("- name: shop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := DefaultAPI()
	data := []byte("api: {listen: 9000, tokens_file: " + file + "}")
	if _, err := parse(data, []string{"DUETIME_API__TLS__CERT_FILE=a", "DUETIME_API__TLS__KEY_FILE=b"}, a); err != nil {
		t.Fatal(err)
	}
	tokens, err := a.TokensSecret()
	if err != nil || string(tokens) != "- name: shop" {
		t.Errorf("read tokens of %d bytes, %v", len(tokens), err)
	}
	if want := (API{Listen: "127.0.0.1:9000", TokensFile: file, TLS: ServerTLS{"a", "b"}}); *a != want {
		t.Errorf("read %+v", *a)
	}
	a.TokensFile = "none"
	if _, err := a.TokensSecret(); err == nil || !strings.Contains(err.Error(), "api.tokens_file") {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := parse(data, nil); err != nil {
		t.Errorf("a program without the section: %v", err)
	}
}
