package api

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/duetime/duetime/pkg/task"
)

var errCursor = &task.FieldError{Field: "cursor", Problem: "must be one that a page before has given"}

// sealer encrypts the cursors of callers with a scope: a cursor names the row behind which the next page begins, and that row
// may be outside of the scope. The key is made of the deployment's id, which callers don't know, so that any process continues
// the list.
type sealer struct {
	deployment func(context.Context) (string, error)
}

// wrap is an interceptor.
func (s sealer) wrap(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (res connect.AnyResponse, err error) {
		if !callerOf(ctx).isScoped() {
			return next(ctx, req)
		}
		list := []byte(req.Spec().Procedure) // the cursor of one list is none of another
		err = s.replace(ctx, req.Any(), "cursor", func(key cipher.AEAD, cursor string) (string, error) {
			sealed, err := base64.RawURLEncoding.DecodeString(cursor)
			if err != nil {
				return "", errCursor
			}
			place, err := key.Open(nil, nil, sealed, list)
			if err != nil {
				return "", errCursor
			}
			return string(place), nil
		})
		if err != nil {
			return nil, err
		}
		if res, err = next(ctx, req); err != nil {
			return nil, err
		}
		return res, s.replace(ctx, res.Any(), "next_cursor", func(key cipher.AEAD, place string) (string, error) {
			return base64.RawURLEncoding.EncodeToString(key.Seal(nil, nil, []byte(place), list)), nil //nolint:gosec // It makes a nonce of its own.
		})
	}
}

// replace changes a field of a message, if the message has it.
func (s sealer) replace(ctx context.Context, message any, field protoreflect.Name, by func(cipher.AEAD, string) (string, error)) error {
	of, is := message.(proto.Message)
	if !is {
		return nil
	}
	m := of.ProtoReflect()
	f := m.Descriptor().Fields().ByName(field)
	if f == nil || !m.Has(f) {
		return nil
	}
	key, err := s.key(ctx)
	if err != nil {
		return fmt.Errorf("make the key of cursors: %w", err)
	}
	text, err := by(key, m.Get(f).String())
	if err == nil {
		m.Set(f, protoreflect.ValueOfString(text))
	}
	return err
}

func (s sealer) key(ctx context.Context) (cipher.AEAD, error) {
	id, err := s.deployment(ctx)
	if err != nil {
		return nil, err
	}
	secret := sha256.Sum256([]byte("duetime cursor " + id))
	block, err := aes.NewCipher(secret[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
