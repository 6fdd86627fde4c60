// Package encrypt encrypts the payloads of a kind's tasks, from the service that schedules a task to the worker that runs it:
//
//	var Coupon = task.NewKind[Voucher]("coupon.expire", encrypt.Payloads(keys))
//
// MySQL, Redis, Kafka, logs and the API have the encrypted form alone. Kinds, owners, subjects, keys, labels, due times and the errors of
// handlers stay readable.
//
// The encrypted form is a JSON object: {"encrypted": KEY, "data": DATA}, with the key's id and, in base64, a salt of 16 bytes and the
// payload under AES-256-GCM, so that any language may encrypt and decrypt:
//
//	context = kind + "\n" + owner + "\n"
//	salt    = HMAC-SHA256(HKDF-SHA256(secret, salt: none, info: "duetime salt", 32 bytes), context + payload), its first 16 bytes
//	key, nonce = HKDF-SHA256(secret, salt, info: "duetime payload", 32 + 12 bytes)
//	data    = salt + AES-256-GCM(key, nonce, payload, additional data: context)
//
// The context binds it to its kind and owner. The salt follows from the payload, so that a recurrence which a service defines again at
// its start is seen to be the same; who reads the database may see which payloads of one kind and owner are equal, and how long they are.
package encrypt

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/duetime/duetime/pkg/task"
)

// Bytes of a key's secret, of a salt, and of what AES-256-GCM takes.
const (
	secretBytes = 32
	saltBytes   = 16
	cipherBytes = 32
	nonceBytes  = 12
)

// Key encrypts payloads. Its id stands beside each of them, in clear.
type Key struct {
	ID     string
	Secret []byte // 32 bytes
}

// KeyFunc returns the key with this id or, for an empty id, the one that encrypts new payloads. It is called for each payload, by many
// goroutines: one that asks another server keeps what it was told, and bounds its calls. In a worker it is a part of the
// handler: its panic is the handler's, and if it does not return within the handler's time it is abandoned, as a handler is
// that ignores its context.
type KeyFunc func(id string) (Key, error)

// Payloads has the kind's payloads encrypted. Tasks that were scheduled before run as they are. An attempt whose payload can't be decrypted
// fails, and its error names the key; it is tried again as after any failure.
//
// The limit of 4 KiB (task.MaxPayload) holds for the encrypted form, whose length is four thirds of the payload's and some 80 bytes.
func Payloads(keys KeyFunc) task.KindOption {
	return func(k *task.KindInfo) { k.Codec = &codec{keys} }
}

type codec struct{ keys KeyFunc }

// envelope is the form that a row has.
type envelope struct {
	Key  string `json:"encrypted"`
	Data []byte `json:"data"`
}

func (c *codec) Encode(kind, owner string, payload []byte) ([]byte, error) {
	key, err := c.key("")
	if err != nil {
		return nil, err
	}
	context := contextOf(kind, owner)
	salt, err := saltOf(key, context, payload)
	if err != nil {
		return nil, err
	}
	gcm, nonce, err := cipherOf(key, salt)
	if err != nil {
		return nil, err
	}
	return json.Marshal(envelope{key.ID, gcm.Seal(salt, nonce, payload, context)})
}

// Decode returns a payload that is not encrypted as it is.
func (c *codec) Decode(kind, owner string, payload []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	var e envelope
	_ = json.Unmarshal(payload, &fields) // an error leaves none
	delete(fields, "group")              // of a group's follower
	if len(fields) != 2 || fields["encrypted"] == nil || fields["data"] == nil {
		return payload, nil
	}
	if err := json.Unmarshal(payload, &e); err != nil || len(e.Data) < saltBytes {
		return nil, fmt.Errorf("the payload, encrypted with key %s, is damaged", fields["encrypted"])
	}
	key, err := c.key(e.Key)
	if err != nil {
		return nil, err
	}
	gcm, nonce, err := cipherOf(key, e.Data[:saltBytes])
	if err != nil {
		return nil, err
	}
	opened, err := gcm.Open(nil, nonce, e.Data[saltBytes:], contextOf(kind, owner))
	if err != nil {
		return nil, fmt.Errorf("the payload can't be decrypted with key %q: the key has another secret, or the payload was encrypted for another "+
			"kind or owner", e.Key)
	}
	return opened, nil
}

// key returns a key that can be used.
func (c *codec) key(id string) (Key, error) {
	key, err := c.keys(id)
	switch {
	case err != nil && id == "":
		return Key{}, fmt.Errorf("the key that encrypts payloads: %w", err)
	case err != nil:
		return Key{}, fmt.Errorf("key %q, which encrypted the payload: %w", id, err)
	case key.ID == "" || id != "" && key.ID != id:
		return Key{}, fmt.Errorf("asked for key %q, the function of keys answered %q", id, key.ID)
	case len(key.Secret) != secretBytes:
		return Key{}, fmt.Errorf("the secret of key %q must be %d bytes, and has %d", key.ID, secretBytes, len(key.Secret))
	}
	return key, nil
}

// contextOf is what a payload is bound to. Neither name has a control character.
func contextOf(kind, owner string) []byte { return []byte(kind + "\n" + owner + "\n") }

func saltOf(key Key, context, payload []byte) ([]byte, error) {
	secret, err := hkdf.Key(sha256.New, key.Secret, nil, "duetime salt", sha256.Size)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write(context)
	mac.Write(payload)
	return mac.Sum(nil)[:saltBytes], nil
}

// cipherOf returns the cipher and the nonce of the one payload that has this salt.
func cipherOf(key Key, salt []byte) (cipher.AEAD, []byte, error) {
	made, err := hkdf.Key(sha256.New, key.Secret, salt, "duetime payload", cipherBytes+nonceBytes)
	if err != nil {
		return nil, nil, err
	}
	block, err := aes.NewCipher(made[:cipherBytes])
	if err != nil {
		return nil, nil, err
	}
	gcm, err := cipher.NewGCM(block)
	return gcm, made[cipherBytes:], err
}
