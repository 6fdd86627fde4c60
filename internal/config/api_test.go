package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A section that can't be meant, or that would let everybody in, is refused by the full names of its keys.
func TestAPISectionIsRefused(t *testing.T) {
	t.Parallel()
	for text, says := range map[string][]string{
		"listen: here":                         {"api.listen"},
		"admin: here":                          {"api.admin"},
		"tls: {cert_file: a}":                  {"api.tls.cert_file: goes with"},
		"tls: {key_file: a}":                   {"api.tls.cert_file: goes with"},
		"listen: '0.0.0.0:1'":                  {"api.tokens: is needed", "api.tls.cert_file: is needed"},
		"listen: '10.0.0.1:1', tokens_file: a": {"api.tls.cert_file: is needed"},
		"listen: '[::]:1', tls: {cert_file: a, key_file: b}": {"api.tokens: is needed"},
		"listen: '[::]:1', tls: {terminated: true}":          {"api.tokens: is needed, since others reach api.listen"},
		"tls: {terminated: true}":                            {"api.tokens: is needed with api.tls.terminated"},
		"tls: {terminated: true, cert_file: a, key_file: b}": {"api.tls.terminated: has no use"},
		"tls: {terminated: 'yes'}":                           {"api.tls.terminated: must be true or false, not a text"},
		"origins: ['*']":                                     {"api.origins: * needs api.tokens"},
		"origins: [shop.example]":                            {`api.origins: "shop.example" is not of the form`},
		"origins: ['shop.example:443']":                      {"https://shop.example"},
		"origins: ['https://*.example']":                     {"https://shop.example"},
		"origins: ['https://']":                              {"https://shop.example"},
		"origins: ['https://:1']":                            {"https://shop.example"},
		"origins: ['https://a.example/']":                    {"without a path"},
		"origins: ['https://a.example?b']":                   {"without a path"},
		"origins: ['https://a.example#b']":                   {"without a path"},
		"origins: ['HTTPS://a.example']":                     {"in lower case"},
		"origins: ['https://A.example']":                     {"in lower case"},
		"origins: ['https://b@a.example']":                   {"without a user"},
		"origins: ['https://a.example:443']":                 {"without the port"},
		"origins: ['http://a.example:80']":                   {"without the port"},
		"origins: ['https://a.example:70000']":               {"from 1 to 65535"},
		"origins: ['https://a.example:0']":                   {"from 1 to 65535"},
		"origins: ['https://a.example:']":                    {"from 1 to 65535"},
		"tokens: a, tokens_file: b":                          {"api.tokens_file: has no use"},
	} {
		_, err := parse([]byte("api: {"+text+"}"), nil, DefaultAPI())
		for _, part := range says {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: got %v, want %q", text, err, part)
			}
		}
	}
}

// Web sites are named as browsers name them; with tokens they may be all.
func TestAPIOrigins(t *testing.T) {
	t.Parallel()
	const sites = "https://shop.example,http://127.0.0.1:8080,https://[::1]:8443,capacitor://localhost"
	a := DefaultAPI()
	if _, err := parse(nil, []string{"DUETIME_API__ORIGINS=" + sites}, a); err != nil || strings.Join(a.Origins, ",") != sites {
		t.Errorf("read %v, %v", a.Origins, err)
	}
	if _, err := parse(nil, []string{"DUETIME_API__ORIGINS=*", "DUETIME_API__TOKENS=a"}, DefaultAPI()); err != nil {
		t.Error(err)
	}
}

// Tokens may stand in the file as the list that they are. A number there would lose its leading zeros.
func TestAPITokensAsAList(t *testing.T) {
	t.Parallel()
	a := DefaultAPI()
	const list = "[{name: shop, role: read, token: hunter2, owners: [ann, 'b-*'], kinds: }]"
	if _, err := parse([]byte("api: {tokens: "+list+"}"), nil, a); err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := errors.Join(yaml.Unmarshal([]byte(a.Tokens), &got), yaml.Unmarshal([]byte(list), &want)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %v, %v, want %v", got, err, want)
	}
	for text, says := range map[string]string{
		"[{name: shop, role: read, token: 012345678901234567}]": "api.tokens: item 1 has a number, where texts (in quotes) belong",
		"[{name: shop}, {owners: [ann, hunter2, true]}]":        "api.tokens: item 2 has a boolean",
		"[{name: shop, 7: hunter2}]":                            "api.tokens: item 1 has a section",
		"{name: hunter2}":                                       "api.tokens: must be a text (in quotes), not a section",
	} {
		_, err := parse([]byte("api: {tokens: "+text+"}"), nil, DefaultAPI())
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

// A certificate isn't asked for where something else ends TLS. The text of the tokens is masked.
func TestAPIBehindAProxy(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"true", " false "} {
		a, want := DefaultAPI(), text == "true"
		c, err := parse([]byte("api: {listen: '127.0.0.1:1', tokens: hunter2}"), []string{"DUETIME_API__TLS__TERMINATED=" + text}, a)
		if err != nil || a.TLS.Terminated != want {
			t.Errorf("%s: %v, %v", text, a.TLS, err)
		}
		if said := Print(c, a); strings.Contains(said, "hunter2") || !strings.Contains(said, "api.tls.terminated: "+strings.TrimSpace(text)) {
			t.Errorf("printed %s", said)
		}
	}
	a := DefaultAPI()
	if _, err := parse([]byte("api: {listen: '0.0.0.0:1', tokens: hunter2, tls: {terminated: true}}"), nil, a); err != nil {
		t.Error(err)
	}
	if tokens, err := a.TokensSecret(); err != nil || string(tokens) != "hunter2" {
		t.Errorf("read tokens of %d bytes, %v", len(tokens), err)
	}
	_, err := parse(nil, []string{"DUETIME_API__TLS__TERMINATED=1"}, DefaultAPI())
	if err == nil || !strings.Contains(err.Error(), `DUETIME_API__TLS__TERMINATED: must be true or false, not "1"`) {
		t.Errorf("1: %v", err)
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
	if want := (API{Listen: "127.0.0.1:9000", TokensFile: file, Origins: []string{}, TLS: ServerTLS{CertFile: "a", KeyFile: "b"}}); !reflect.DeepEqual(*a, want) {
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
