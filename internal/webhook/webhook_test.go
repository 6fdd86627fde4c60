package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/duetime/duetime/internal/webhook"
)

const (
	older = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" // of the specification's published example
	newer = "whsec_bmV3ZXIgc2VjcmV0IG9mIDI0IGJ5dGVzISEh"
)

func signer(t *testing.T, secrets ...string) webhook.Signer {
	t.Helper()
	s, err := webhook.NewSigner(secrets)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSignatureOfThePublishedExample(t *testing.T) {
	t.Parallel()
	got := signer(t, older).Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSeveralSecretsSign(t *testing.T) {
	t.Parallel()
	now, body := time.Now(), []byte(`{"a":1}`)
	header := http.Header{}
	header.Set("webhook-id", "some-id")
	header.Set("webhook-timestamp", fmt.Sprint(now.Unix()))
	header.Set("webhook-signature", signer(t, newer, older).Sign("some-id", now, body))
	for name, secret := range map[string]string{"newer": newer, "older": older} {
		receiver, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := receiver.Verify(body, header); err != nil {
			t.Errorf("the %s secret: %v", name, err)
		}
		if err := receiver.Verify([]byte(`{"a":2}`), header); err == nil {
			t.Errorf("the %s secret accepts another body", name)
		}
	}
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(newer, "whsec_"))
	h := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(h, "some-id.%d.%s", now.Unix(), body)
	got, want := header.Get("webhook-signature"), "v1,"+base64.StdEncoding.EncodeToString(h.Sum(nil))+" "
	if !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want it to begin with %s", got, want)
	}
}

func TestSecretsAreRefusedWithoutBeingShown(t *testing.T) {
	t.Parallel()
	short := "whsec_" + base64.StdEncoding.EncodeToString([]byte("only 23 bytes are these"))
	long := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))
	for name, tt := range map[string]struct {
		secrets []string
		says    string
	}{
		"none":      {nil, "has 0 secrets"},
		"many":      {strings.Fields(strings.Repeat(older+" ", 9)), "has 9 secrets"},
		"no prefix": {[]string{newer, strings.TrimPrefix(older, "whsec_")}, "secret 2 is not whsec_"},
		"no base64": {[]string{"whsec_" + strings.Repeat("?", 32)}, "secret 1 is not"},
		"too short": {[]string{short}, "24 to 64 bytes"},
		"too long":  {[]string{long}, "24 to 64 bytes"},
	} {
		_, err := webhook.NewSigner(tt.secrets)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, want an error that says %q", name, err, tt.says)
			continue
		}
		for _, secret := range tt.secrets {
			if strings.Contains(err.Error(), strings.TrimPrefix(secret, "whsec_")) {
				t.Errorf("%s: the error shows a secret: %v", name, err)
			}
		}
	}
}

func TestSecretsAreMasked(t *testing.T) {
	t.Parallel()
	s := signer(t, newer, older)
	got := s.Mask("I got " + older + " and " + strings.TrimPrefix(newer, "whsec_"))
	if want := "I got whsec_*** and ***"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if shown := fmt.Sprintf("%v %s", s, s); shown != "*** ***" {
		t.Errorf("printed, the secrets are %q", shown)
	}
}
