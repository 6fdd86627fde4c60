package config

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// mask stands for a password in everything that is printed.
const mask = "***"

// Secret is a text that must not be seen. Whatever prints, logs or encodes it shows a mask, or nothing for an empty one;
// string(s) is the text itself.
type Secret string

// String returns the mask.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// GoString returns the mask.
func (s Secret) GoString() string { return s.String() }

// Format writes the mask under every verb: fmt asks neither String nor GoString under a verb that is not of a text.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText shows the mask to JSON, YAML and others.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue shows the mask to logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// DSN is user:password@tcp(host:port)/schema. Whatever prints, logs or encodes it shows a mask in the password's place;
// string(d) is the text itself.
type DSN string

// String cuts a DSN as the driver does: the address starts after the last "@" before the last "/", the password after
// the first ":" before that. What it can't cut it hides as a whole.
func (d DSN) String() string {
	dsn := string(d)
	slash := strings.LastIndexByte(dsn, '/')
	if slash < 0 {
		return mask
	}
	at := strings.LastIndexByte(dsn[:slash], '@')
	if at < 0 {
		if slash == 0 {
			return dsn
		}
		return mask + dsn[slash:]
	}
	user, _, secret := strings.Cut(dsn[:at], ":")
	if !secret {
		return dsn
	}
	return user + ":" + mask + dsn[at:]
}

// GoString masks the password.
func (d DSN) GoString() string { return d.String() }

// Format masks the password under every verb.
func (d DSN) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, d.String()) }

// MarshalText masks the password for JSON, YAML and others.
func (d DSN) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// LogValue masks the password in logs.
func (d DSN) LogValue() slog.Value { return slog.StringValue(d.String()) }
