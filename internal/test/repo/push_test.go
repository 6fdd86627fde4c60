package repo_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/webhook"
)

// verifyAll runs the page's function on cases as a server of Python's standard library would: it finds headers in any case.
const verifyAll = `
import base64, email.message, hashlib, hmac, json, sys, time

def message(headers):
    m = email.message.Message()
    for name, value in headers.items():
        m[name] = value
    return m

secret, cases = json.load(sys.stdin)
print(json.dumps({name: verify(secret, message(c["headers"]), c["body"].encode()) for name, c in cases.items()}))
`

var pythonSample = regexp.MustCompile("(?s)```python\n(def verify.+?)```")

// The sample for receivers accepts what duetime signs, under the names that it sends, and refuses all else without an exception.
func TestDocsSampleVerifiesSignatures(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/PUSH.md")
	pipelinetest.Must(t, err)
	sample := pythonSample.FindSubmatch(page)
	if sample == nil {
		t.Fatal("docs/PUSH.md has no function verify in Python")
	}
	const secret, old = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3", "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4"
	const id, body = "0192f0c1-7a50-7cc2-9d3e-0a6b3f1c2d4e", `{"order": 42, "note": "ü"}`
	now := time.Now()
	type received struct {
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
	}
	signed := func(at time.Time, secrets ...string) received {
		signer, err := webhook.NewSigner(secrets)
		pipelinetest.Must(t, err)
		return received{map[string]string{
			"Webhook-Id": id, "Webhook-Timestamp": strconv.FormatInt(at.Unix(), 10), "Webhook-Signature": signer.Sign(id, at, []byte(body)),
		}, body}
	}
	changed := func(name, value string) received {
		r := signed(now, secret)
		r.Headers[name] = value
		return r
	}
	without := func(name string) received {
		r := signed(now, secret)
		delete(r.Headers, name)
		return r
	}
	altered := signed(now, secret)
	altered.Body += " "
	cases := map[string]received{
		"genuine": signed(now, secret), "rotated": signed(now, old, secret), "lower case": {map[string]string{}, body},
		"another secret": signed(now, old), "another body": altered, "old": signed(now.Add(-time.Hour), secret),
		"another id": changed("Webhook-Id", "7"), "no number": changed("Webhook-Timestamp", "now"), "no ASCII": changed("Webhook-Signature", "v1,ü"),
		"no id": without("Webhook-Id"), "no timestamp": without("Webhook-Timestamp"), "no signature": without("Webhook-Signature"),
	}
	for name, value := range cases["genuine"].Headers {
		cases["lower case"].Headers[strings.ToLower(name)] = value
	}
	in, err := json.Marshal([]any{secret, cases})
	pipelinetest.Must(t, err)
	python := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", string(sample[1])+verifyAll)
	python.Stdin, python.Stderr = strings.NewReader(string(in)), os.Stderr
	out, err := python.Output()
	pipelinetest.Must(t, err)
	var got map[string]bool
	pipelinetest.Must(t, json.Unmarshal(out, &got))
	for name := range cases {
		if want := name == "genuine" || name == "rotated" || name == "lower case"; got[name] != want {
			t.Errorf("%s: verify returns %v", name, got[name])
		}
	}
}
