package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/duetime/duetime/pkg/task"
)

// envPrefix starts the name of each of our variables; levelMark separates the levels of a key in such a name.
const (
	envPrefix = "DUETIME_"
	levelMark = "__"
)

// Problems are all mistakes in one source, printed in one line.
type Problems []string

func (p Problems) Error() string { return strings.Join(p, "; ") }

// orNil turns an empty list into a nil error.
func (p Problems) orNil() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// Load reads the file at path over the defaults, then the DUETIME_ variables of environ (as os.Environ returns them) over
// both. It validates the result, and reads the files that hold secrets. A missing file is an error only if the path was
// given explicitly. The sections are filled and validated too. The error is one line that names every unknown key or
// variable and every wrong value, but no password.
func Load(path string, explicit bool, environ []string, sections ...Section) (Config, error) {
	data, err := os.ReadFile(path) //nolint:gosec // The operator names the file.
	if err != nil && (explicit || !errors.Is(err, fs.ErrNotExist)) {
		return Config{}, fmt.Errorf("read config: %w", err)
	}
	c, err := parse(data, environ, sections...)
	if err == nil {
		err = c.readSecrets()
	}
	if err != nil {
		return Config{}, fmt.Errorf("config %s: %w", path, err)
	}
	return c, nil
}

// parse applies the file's content and the environment to the defaults. It is Load without the file system.
func parse(data []byte, environ []string, sections ...Section) (Config, error) {
	given := source{schema: newSchema(sections...), values: map[string]any{}, limits: map[string]task.Limit{}}
	if err := given.readFile(data); err != nil {
		return Config{}, err
	}
	if err := given.readEnv(environ); err != nil {
		return Config{}, oneLine(err)
	}
	for key, f := range given.fields {
		if v, ok := given.values[key]; ok {
			f.value.Set(reflect.ValueOf(v).Convert(f.value.Type()))
		}
		if f.form == formAddr {
			f.value.SetString(Loopback(f.value.String()))
		}
	}
	c := *given.config
	if len(given.limits) > 0 {
		c.Limits = given.limits
	}
	return c, c.validate(sections...)
}

// source is what the file and the environment give.
type source struct {
	schema

	values map[string]any        // by their keys, of the fields' types or convertible to them
	limits map[string]task.Limit // of queues
	wrong  Problems
}

// readEnv takes every variable whose name has a level mark, and the two top-level ones that the environment may set. It
// refuses a name that is nearly one of those. It ignores other names with our prefix: orchestrators inject such names
// (DUETIME_SERVICE_HOST), and tests have their own (DUETIME_TEST_SQL).
func (s *source) readEnv(environ []string) error {
	keys := s.variables()
	for _, entry := range prefixed(environ) {
		name, text, _ := strings.Cut(entry, "=")
		key, ok := keys[name]
		if !ok {
			if problem := s.misnamed(name, keys); problem != "" {
				s.wrong = append(s.wrong, problem)
			}
			continue
		}
		value, err := s.fields[key].fromEnv(text)
		if err != nil {
			s.wrong.Addf("environment variable %s: %v", name, err)
		}
		s.values[key] = value
	}
	return s.wrong.orNil()
}

// prefixed returns the variables with our prefix, in capitals or not.
func prefixed(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		return len(entry) < len(envPrefix) || !strings.EqualFold(entry[:len(envPrefix)], envPrefix)
	})
}

// readFile takes the file's values. It accepts one document, known keys, and values of their keys' types.
func (s *source) readFile(data []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc any
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return withoutValues(err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return errors.New("more than one YAML document in the file")
	}
	s.section("", doc)
	return s.wrong.orNil()
}

// section takes the values below one section's key. A section whose keys are all commented out is empty.
func (s *source) section(at string, v any) {
	var in map[string]any
	switch v := v.(type) {
	case nil:
		return
	case map[string]any:
		in = v
	case map[any]any:
		in = make(map[string]any, len(v))
		for key, value := range v {
			in[fmt.Sprint(key)] = value
		}
	default:
		s.wrong.Addf("%s: must be a section, not %s", cmp.Or(at, "the file"), yamlType(v))
		return
	}
	if s.foreign[at] {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		s.entry(at, name, in[name])
	}
}

func (s *source) entry(at, name string, v any) {
	key := strings.TrimPrefix(at+"."+name, ".")
	f, leaf := s.fields[key]
	var err error
	switch {
	case strings.Contains(name, ".") && (leaf || s.sections[key]):
		err = errors.New("write it as nested sections, not with a dot")
	case name != "" && s.sections[key]:
		s.section(key, v)
	case !leaf:
		problem := fmt.Sprintf("unknown key %q", key)
		if near := s.nearKey(key); near != "" {
			problem += fmt.Sprintf(", did you mean %q?", near)
		}
		s.wrong = append(s.wrong, problem)
	case key == queuesKey:
		s.values[key], s.limits, err = queueList(v)
	default:
		s.values[key], err = f.fromYAML(v)
	}
	if err != nil {
		s.wrong.Addf("%s: %v", key, err)
	}
}

// oneLine folds an error of several lines: a syntax error of the YAML library, or one that names a variable whose name
// holds a line break.
var quoted = regexp.MustCompile("'[^']*'|`[^`]*`")

// withoutValues is a YAML reader's error on one line, without what it repeats of the file: an anchor or a value, which may be a
// password that begins with * or &.
func withoutValues(err error) error {
	text := quoted.ReplaceAllString(oneLine(err).Error(), "…")
	if strings.Contains(text, "…") {
		text += " (put values that begin with *, & or ! in quotes)"
	}
	return errors.New(text)
}

func oneLine(err error) error {
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}
