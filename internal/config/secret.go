package config

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// mask replaces a password in everything that is printed.
const mask = "***"

// Secret is a text that must not be seen. Printing, logging or encoding it shows a mask, or nothing for an empty one;
// string(s) is the text itself.
type Secret string

// String returns the mask.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// Format writes the mask for every verb: fmt calls String for verbs of text alone.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText writes the mask to JSON, YAML and others.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue writes the mask to logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// DSN is user:password@tcp(host:port)/schema. Printing, logging or encoding it shows a mask instead of the password;
// string(d) is the text itself.
type DSN string

// String cuts a DSN as the driver does: the address starts after the last "@" before the last "/", the password after the
// first ":" before that "@". A text that can't be cut is masked as a whole.
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

// Format masks the password for every verb.
func (d DSN) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, d.String()) }

// MarshalText masks the password for JSON, YAML and others.
func (d DSN) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// LogValue masks the password in logs.
func (d DSN) LogValue() slog.Value { return slog.StringValue(d.String()) }
