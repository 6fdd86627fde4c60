package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

const (
	minToken = 16  // characters
	maxName  = 100 // bytes; the history cuts an actor at 128
)

// Role is what the holder of a token may do: all that the roles before it may, and more.
type Role int

// The roles.
const (
	RoleRead     Role = iota + 1 // reads tasks and recurrences
	RoleSchedule                 // schedules and changes them, as a service does
	RoleOperate                  // retries dead tasks and makes operations, as an operator does
)

var roleNames = map[Role]string{RoleRead: "read", RoleSchedule: "schedule", RoleOperate: "operate"}

// String returns the role's name.
func (r Role) String() string { return roleNames[r] }

// UnmarshalText reads the role's name.
func (r *Role) UnmarshalText(text []byte) error {
	for role, name := range roleNames {
		if name == string(text) {
			*r = role
			return nil
		}
	}
	return errors.New("role must be read, schedule or operate")
}

// Token is a caller. Owners and Kinds are its scope: the tasks that it sees and changes are of these owners and kinds. A name
// that ends in * stands for all that begin so; nil is all.
type Token struct {
	Name   string   `yaml:"name"`
	Role   Role     `yaml:"role"`
	Token  string   `yaml:"token"`
	Owners []string `yaml:"owners"`
	Kinds  []string `yaml:"kinds"`
}

// ParseTokens reads a list of tokens in YAML. Its errors repeat no value, since one may be a token.
func ParseTokens(text string) ([]Token, error) {
	var tokens []Token
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	switch err := decoder.Decode(&tokens); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("there is no token")
	case err != nil:
		return nil, fmt.Errorf("%s is no part of a list of name, role (read, schedule, operate), token, owners and kinds", lineOf(err))
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one YAML document")
	}
	if len(tokens) == 0 {
		return nil, errors.New("there is no token")
	}
	return tokens, checkScopesSet(text)
}

// checkScopesSet refuses a scope whose names are all commented out: YAML reads it as one that is left out, which is all.
func checkScopesSet(text string) error {
	var entries []map[string]any
	if err := yaml.Unmarshal([]byte(text), &entries); err != nil {
		return fmt.Errorf("%s is no list of tokens", lineOf(err))
	}
	for i, entry := range entries {
		for _, field := range []string{"owners", "kinds"} {
			if names, set := entry[field]; set && names == nil {
				return fmt.Errorf("token %d: %s is empty: leave it out, or name some", i+1, field)
			}
		}
	}
	return nil
}

var lineNumber = regexp.MustCompile(`line \d+`)

// lineOf finds the line that a reader's error names, and leaves out the line's text.
func lineOf(err error) string {
	if line := lineNumber.Find([]byte(err.Error())); line != nil {
		return string(bytes.TrimSpace(line))
	}
	return "the text"
}

func (t Token) check() error {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case t.Name == "" || len(t.Name) > maxName || strings.ContainsFunc(t.Name, unprintable) || strings.Contains(t.Name, "@"):
		return fmt.Errorf("name %q is not 1 to %d printable bytes without an @", t.Name, maxName)
	case t.Role.String() == "":
		return fmt.Errorf("%s: role must be read, schedule or operate", t.Name)
	case len(t.Token) < minToken:
		return fmt.Errorf("%s: the token has fewer than %d characters", t.Name, minToken)
	case strings.ContainsFunc(t.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("%s: the token has characters that a header can't carry", t.Name)
	}
	for field, names := range map[string][]string{"owners": t.Owners, "kinds": t.Kinds} {
		if names != nil && len(names) == 0 {
			return fmt.Errorf("%s: %s is empty: leave it out, or name some", t.Name, field)
		}
		for _, name := range names {
			if name == "" {
				return fmt.Errorf("%s: %s has an empty name", t.Name, field)
			}
		}
	}
	return nil
}
