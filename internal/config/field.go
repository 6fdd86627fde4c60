package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Forms in the struct tag "form".
const (
	formAddr = "addr" // host:port. A port alone is enough, even as a number
	formYAML = "yaml" // a text that holds a YAML list, or the list itself
)

// ownForm is a type of values with a form of its own in the file.
type ownForm interface {
	// fromYAML converts a value of the file to the type. The error never repeats a text, which may be a secret.
	fromYAML(v any) (any, error)
	String() string
}

var durationType = reflect.TypeFor[time.Duration]()

// field is one key: its place in a Config and its struct tags.
type field struct {
	key   string // as in the file, levels joined by dots
	doc   string
	form  string
	value reflect.Value // settable, in the Config that fieldsOf was given
}

func appendFields(to []field, prefix string, v reflect.Value) []field {
	for i := range v.NumField() {
		tag, key := v.Type().Field(i).Tag, prefix+v.Type().Field(i).Tag.Get("key")
		if tag.Get("key") == "-" {
			continue // it stands in the file with another key
		}
		if v.Field(i).Kind() == reflect.Struct {
			to = appendFields(to, key+".", v.Field(i))
			continue
		}
		to = append(to, field{key: key, doc: tag.Get("doc"), form: tag.Get("form"), value: v.Field(i)})
	}
	return to
}

// schema finds a key's field, and tells a section from an unknown key.
type schema struct {
	config   *Config // whose fields these are, and those of the sections; it holds the defaults
	fields   map[string]field
	sections map[string]bool
	foreign  map[string]bool // sections of other programs
}

func newSchema(sections ...Section) schema {
	c := Default()
	s := schema{config: &c, fields: map[string]field{}, sections: map[string]bool{"": true}, foreign: maps.Clone(programSections)}
	for _, section := range sections {
		delete(s.foreign, section.Name())
	}
	for name := range s.foreign {
		s.sections[name] = true
	}
	for _, f := range fieldsOf(&c, sections...) {
		s.fields[f.key] = f
		for key := f.key; strings.Contains(key, "."); {
			key = key[:strings.LastIndexByte(key, '.')]
			s.sections[key] = true
		}
	}
	return s
}

// fromYAML converts a value of the file to the field's own type. The error never repeats a text, which may be a secret.
func (f field) fromYAML(v any) (any, error) {
	if own, ok := f.value.Interface().(ownForm); ok {
		return own.fromYAML(v)
	}
	switch {
	case f.value.Type() == durationType:
		return durationOf(v)
	case f.value.Kind() == reflect.Int:
		if n, ok := v.(int); ok {
			return n, nil
		}
		return nil, fmt.Errorf("must be a whole number, not %s", yamlType(v))
	case f.value.Kind() == reflect.Float64:
		switch n := v.(type) {
		case int:
			return float64(n), nil
		case float64:
			return n, nil
		}
		return nil, fmt.Errorf("must be a number, not %s", yamlType(v))
	case f.value.Kind() == reflect.Bool:
		if b, ok := v.(bool); ok {
			return b, nil
		}
		return nil, fmt.Errorf("must be true or false, not %s", yamlType(v))
	case f.value.Kind() == reflect.Slice:
		return textList(v)
	}
	if n, ok := v.(int); ok && f.form == formAddr {
		return strconv.Itoa(n), nil
	}
	if list, ok := v.([]any); ok && f.form == formYAML {
		return listText(list)
	}
	if s, ok := v.(string); ok {
		return s, nil
	}
	return nil, fmt.Errorf("must be a text (in quotes), not %s", yamlType(v))
}

// fromEnv converts the text of an environment variable to the field's own type.
func (f field) fromEnv(s string) (any, error) {
	if _, ok := f.value.Interface().(ownForm); ok {
		return nil, errors.New("can be set in the file only")
	}
	switch {
	case f.value.Type() == durationType:
		return parseDuration(strings.TrimSpace(s))
	case f.value.Kind() == reflect.Int:
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil {
			return nil, fmt.Errorf("must be a whole number, not %q", s)
		}
		return n, nil
	case f.value.Kind() == reflect.Float64:
		n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if err != nil {
			return nil, fmt.Errorf("must be a number, not %q", s)
		}
		return n, nil
	case f.value.Kind() == reflect.Bool:
		switch strings.TrimSpace(s) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return nil, fmt.Errorf("must be true or false, not %q", s)
	case f.value.Kind() == reflect.Slice:
		if strings.TrimSpace(s) == "" {
			return []string{}, nil
		}
		list := strings.Split(s, ",")
		for i := range list {
			list[i] = strings.TrimSpace(list[i])
		}
		return list, nil
	}
	return s, nil
}

// durationOf converts a value of the file.
func durationOf(v any) (time.Duration, error) {
	if s, ok := v.(string); ok {
		return parseDuration(s)
	}
	if v == 0 {
		return 0, nil // zero is the only number without a unit, as in Go
	}
	return 0, fmt.Errorf("must be a duration with its unit, such as 50ms or 2h, not %s", yamlType(v))
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("must be a duration such as 50ms or 2h, not %q", s)
	}
	return d, nil
}

func textList(v any) ([]string, error) {
	items, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("must be a list, not %s", yamlType(v))
	}
	list := make([]string, len(items))
	for i, item := range items {
		if list[i], ok = item.(string); !ok {
			return nil, fmt.Errorf("item %d must be a text (in quotes), not %s", i+1, yamlType(item))
		}
	}
	return list, nil
}

// listText returns a list of the file as text again. It refuses numbers: 0123 would come back as another one.
func listText(list []any) (string, error) {
	for i, item := range list {
		if wrong := notText(item); wrong != nil {
			return "", fmt.Errorf("item %d has %s, where texts (in quotes) belong", i+1, yamlType(wrong))
		}
	}
	text, err := json.Marshal(list) // which is YAML
	return string(text), err
}

// notText returns the first value in v that is neither text nor empty, or nil.
func notText(v any) any {
	switch v := v.(type) {
	case nil, string:
		return nil
	case []any:
		for _, item := range v {
			if wrong := notText(item); wrong != nil {
				return wrong
			}
		}
		return nil
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if wrong := notText(v[name]); wrong != nil {
				return wrong
			}
		}
		return nil
	}
	return v
}

// yamlType names a value's type in the words of the file's reader.
func yamlType(v any) string {
	switch v.(type) {
	case nil:
		return "empty"
	case string:
		return "a text"
	case bool:
		return "a boolean"
	case int, int64, uint64, float64:
		return "a number"
	case []any:
		return "a list"
	case map[string]any, map[any]any:
		return "a section"
	}
	return "a date"
}
