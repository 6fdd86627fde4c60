// Package webhook signs requests by Standard Webhooks, and says to which endpoints requests may go.
//
// It promises that no error of its own repeats a secret or a URL, either of which may open a door. It sends nothing.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	secretPrefix = "whsec_"
	minBytes     = 24 // of a secret: the least and the most that Standard Webhooks recommends
	maxBytes     = 64
	maxSecrets   = 8 // of an endpoint: a rotation has two

	mask = "***" // stands for a secret
)

// Signer signs the requests to one endpoint. While a secret is rotated it has several.
type Signer struct {
	texts   []string // the secrets without their prefix
	secrets [][]byte
}

// NewSigner reads secrets of the form whsec_ and the base64 of 24 to 64 bytes. The error says which one is wrong, by its
// place.
func NewSigner(secrets []string) (Signer, error) {
	if len(secrets) < 1 || len(secrets) > maxSecrets {
		return Signer{}, fmt.Errorf("has %d secrets: 1 to %d are needed", len(secrets), maxSecrets)
	}
	var s Signer
	for i, secret := range secrets {
		text, prefixed := strings.CutPrefix(secret, secretPrefix)
		decoded, err := base64.StdEncoding.DecodeString(text)
		if !prefixed || err != nil || len(decoded) < minBytes || len(decoded) > maxBytes {
			return Signer{}, fmt.Errorf("secret %d is not %s and the base64 of %d to %d bytes", i+1, secretPrefix, minBytes, maxBytes)
		}
		s.texts, s.secrets = append(s.texts, text), append(s.secrets, decoded)
	}
	return s, nil
}

// Sign returns the header webhook-signature of a message: a signature by each secret, so that the receiver needs any one of the
// secrets.
func (s Signer) Sign(id string, at time.Time, body []byte) string {
	signatures := make([]string, len(s.secrets))
	for i, secret := range s.secrets {
		h := hmac.New(sha256.New, secret)
		h.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		h.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
	}
	return strings.Join(signatures, " ")
}

// Mask replaces the secrets in a text that came from elsewhere.
func (s Signer) Mask(text string) string {
	for _, secret := range s.texts {
		text = strings.ReplaceAll(text, secret, mask)
	}
	return text
}

// String returns a mask, so that no log shows a secret.
func (Signer) String() string { return mask }
