package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	someSecret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherSecret = "whsec_bmV3ZXIgc2VjcmV0IG9mIDI0IGJ5dGVzISEh"
)

// A kind that can't be delivered is refused by its name, and no secret is repeated.
func TestDeliverSectionIsRefused(t *testing.T) {
	t.Parallel()
	const right = "url: 'https://shop.example/hook', queue: default, secrets: " + someSecret
	for text, says := range map[string]string{
		"kinds: [a]":                                                                   "deliver.kinds: must be a section of kinds, not a list",
		"kinds: {a: b}":                                                                "deliver.kinds: a must be a section",
		"kinds: {'a b': {" + right + "}}":                                              "deliver.kinds: a b: kind must be",
		"kinds: {a: {" + right + ", rate: 9}}":                                         "deliver.kinds: a: has no rate of its own: it is the queue's",
		"kinds: {a: {" + right + ", tmeout: 5}}":                                       `deliver.kinds: a: has the unknown key "tmeout"`,
		"kinds: {a: {" + right + ", timeout: 5}}":                                      "deliver.kinds: a: timeout must be a text",
		"kinds: {a: {" + right + ", timeout: 5x}}":                                     "deliver.kinds: a: timeout must be a duration",
		"kinds: {a: {" + right + ", timeout: 5ms}}":                                    "deliver.kinds: a: timeout: 5ms is below the limit 10ms",
		"kinds: {a: {" + right + ", timeout: 7001ms}}":                                 "timeout 7.001s is above the limit 7s, which is 1s below worker.drain (0s means 8s)",
		"kinds: {a: {" + right + ", secrets_env: X}}":                                  "a: needs one of secrets, secrets_file and secrets_env, it has 2",
		"kinds: {a: {url: 'https://shop.example/', queue: default}}":                   "a: needs one of secrets, secrets_file and secrets_env, it has 0",
		"kinds: {a: {url: 'https://shop.example/', secrets_env: X}}":                   "deliver.kinds: a: needs a queue",
		"kinds: {a: {url: 'http://shop.example/', secrets_env: X, queue: default}}":    "a: url must begin with https",
		"kinds: {a: {url: 'https://u:hunter2@shop/', secrets_env: X, queue: default}}": "a: url must be of the form",
		"kinds: {a: {url: 'https://shop/', secrets: [hunter2], queue: default}}":       "a: secret 1 is not whsec_",
		"kinds: {a: {url: 'https://shop/', secrets: [1], queue: default}}":             "a: secrets: item 1 must be a text",
		"allow: [shop.example:443]":                                                    `deliver.allow: "shop.example:443" is no name`,
		"alow: []":                                                                     `unknown key "deliver.alow", did you mean "deliver.allow"?`,
	} {
		_, err := parse([]byte("deliver: {"+text+"}"), nil, DefaultDeliver())
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", text, err, says)
			continue
		}
		for _, secret := range []string{"hunter2", strings.TrimPrefix(someSecret, "whsec_")} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error repeats a secret: %v", text, err)
			}
		}
	}
}

// The endpoint's timeout ends before the handler's, and this before the drain, whichever of the two is shorter.
func TestDeliverTimeouts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		worker, timeout, says string
	}{
		{"{}", "7s", ""},
		{"{handler_timeout: 4s}", "3s", ""},
		{"{handler_timeout: 4s}", "3001ms", "above the limit 3s, which is 1s below worker.handler_timeout"},
		{"{handler_timeout: 1m, drain: 1m}", "59s", ""},
		{"{handler_timeout: 1m, drain: 1m}", "1m", "above the limit 59s"},
		{"{handler_timeout: 1m}", "8s", "above the limit 7s, which is 1s below worker.drain"},
	} {
		text := "worker: " + tt.worker + "\ndeliver: {kinds: {a: {url: 'https://shop/', queue: default, secrets_env: X, timeout: " + tt.timeout + "}}}"
		_, err := parse([]byte(text), nil, DefaultDeliver())
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s, timeout %s: got %v, want %q", tt.worker, tt.timeout, err, tt.says)
		}
	}
}

// The section is read from file and environment, printed without secrets, and ignored by programs without it.
func TestDeliverSection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secrets")
	if err := os.WriteFile(file, []byte(otherSecret+"\n"+someSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SHOP_SECRET", otherSecret)
	data := []byte("queues: [default, push]\ndeliver:\n  kinds:\n" +
		"    order.paid: {url: 'https://shop.example/hunter2?token=hunter2', queue: push, secrets_file: " + file + "}\n" +
		"    order.expired: {url: 'https://shop.example/e', queue: push, secrets: [" + someSecret + ", " + otherSecret + "], timeout: 2s}\n" +
		"    order.sent: {url: 'https://shop.example/s', queue: default, secrets_env: SHOP_SECRET}\n" +
		"    order.lost: {url: 'https://shop.example/l', queue: default, secrets_env: NOBODY_SETS_IT}\n")
	d := DefaultDeliver()
	cfg, err := parse(data, []string{"DUETIME_DELIVER__ALLOW=10.0.0.0/8,hooks.internal"}, d)
	if err != nil {
		t.Fatal(err)
	}
	want := &Deliver{Allow: []string{"10.0.0.0/8", "hooks.internal"}, Kinds: Endpoints{
		{Kind: "order.expired", Queue: "push", URL: "https://shop.example/e", Timeout: 2 * time.Second, Secrets: someSecret + " " + otherSecret},
		{Kind: "order.lost", Queue: "default", URL: "https://shop.example/l", Timeout: defaultTimeout, SecretsEnv: "NOBODY_SETS_IT"},
		{Kind: "order.paid", Queue: "push", URL: "https://shop.example/hunter2?token=hunter2", Timeout: defaultTimeout, SecretsFile: file},
		{Kind: "order.sent", Queue: "default", URL: "https://shop.example/s", Timeout: defaultTimeout, SecretsEnv: "SHOP_SECRET"},
	}}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	for i, secrets := range [][]string{{someSecret, otherSecret}, nil, {otherSecret, someSecret}, {otherSecret}} {
		got, err := d.Kinds[i].Secret()
		if !slices.Equal(got, secrets) || (err != nil) != (secrets == nil) {
			t.Errorf("%s: got %d secrets (%v), want %d", d.Kinds[i].Kind, len(got), err, len(secrets))
		}
	}
	text := Print(cfg, d)
	for _, has := range []string{"deliver.allow: [10.0.0.0/8, hooks.internal]", "order.paid: {url: https://shop.example/***, queue: push, timeout: 5s, secrets_file:"} {
		if !strings.Contains(text, has) {
			t.Errorf("printed without %q: %s", has, text)
		}
	}
	for _, secret := range []string{"hunter2", strings.TrimPrefix(someSecret, "whsec_")} {
		if strings.Contains(text, secret) {
			t.Errorf("printed with %s: %s", secret, text)
		}
	}
	if _, err := parse(data, []string{"DUETIME_DELIVER__ALLOW=x:1"}); err != nil {
		t.Errorf("a program without the section refuses it: %v", err)
	}
	if _, err := parse(nil, []string{"DUETIME_DELIVER__KINDS=a"}, DefaultDeliver()); err == nil ||
		!strings.Contains(err.Error(), "DUETIME_DELIVER__KINDS: can be set in the file only") {
		t.Errorf("kinds in the environment: got %v", err)
	}
}
