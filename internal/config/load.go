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
	"regexp"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
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
	known, limits := newSchema(sections...), map[string]task.Limit{}
	k := koanf.New(".")
	if err := k.Load(confmap.Provider(known.defaults(), "."), nil); err != nil {
		return Config{}, fmt.Errorf("load defaults: %w", err)
	}
	if err := k.Load(rawbytes.Provider(data), strictYAML{known, limits}); err != nil {
		return Config{}, err
	}
	if err := known.loadEnv(k, environ); err != nil {
		return Config{}, oneLine(err)
	}
	for _, s := range sections {
		if err := fill(k, s.Name(), s); err != nil {
			return Config{}, err
		}
		k.Delete(s.Name())
	}
	var c Config
	if err := fill(k, "", &c); err != nil {
		return Config{}, err
	}
	if len(limits) > 0 {
		c.Limits = limits
	}
	for _, f := range fieldsOf(&c, sections...) {
		if f.form == formAddr {
			f.value.SetString(Loopback(f.value.String()))
		}
	}
	return c, c.validate(sections...)
}

// fill sets every field of a struct from the keys of a section, "" for all.
func fill(k *koanf.Koanf, section string, to any) error {
	strict := koanf.UnmarshalConf{Tag: "koanf", DecoderConfig: &mapstructure.DecoderConfig{ErrorUnused: true}}
	if err := k.UnmarshalWithConf(section, to, strict); err != nil {
		return fmt.Errorf("fill the struct: %w", err)
	}
	return nil
}

func (s schema) defaults() map[string]any {
	all := make(map[string]any, len(s.fields))
	for key, f := range s.fields {
		all[key] = f.value.Interface()
	}
	return all
}

// loadEnv applies every variable whose name has a level mark, and the two top-level ones that the environment may set. It
// refuses a name that is nearly one of those. It ignores other names with our prefix: orchestrators inject such names
// (DUETIME_SERVICE_HOST), and tests have their own (DUETIME_TEST_SQL).
func (s schema) loadEnv(k *koanf.Koanf, environ []string) error {
	keys := s.variables()
	var wrong Problems
	transform := func(name, text string) (string, any) {
		key, ok := keys[name]
		if !ok {
			if problem := s.misnamed(name, keys); problem != "" {
				wrong = append(wrong, problem)
			}
			return "", nil
		}
		value, err := s.fields[key].fromEnv(text)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("environment variable %s: %v", name, err))
			return "", nil
		}
		return key, value
	}
	provider := env.Provider(".", env.Opt{
		TransformFunc: transform, EnvironFunc: func() []string { return prefixed(environ) },
	})
	if err := k.Load(provider, nil); err != nil {
		return fmt.Errorf("read environment: %w", err)
	}
	return wrong.orNil()
}

// prefixed returns the variables with our prefix, in capitals or not.
func prefixed(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		return len(entry) < len(envPrefix) || !strings.EqualFold(entry[:len(envPrefix)], envPrefix)
	})
}

// strictYAML is koanf's parser for the file. It accepts one document, known keys, and values of their keys' types.
type strictYAML struct {
	known  schema
	limits map[string]task.Limit // of queues; Unmarshal fills it
}

// Unmarshal returns the nested sections of the file with every value converted.
func (p strictYAML) Unmarshal(data []byte) (map[string]any, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc any
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, withoutValues(err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one YAML document in the file")
	}
	var wrong Problems
	return p.section("", doc, &wrong), wrong.orNil()
}

// Marshal only completes koanf's interface.
func (strictYAML) Marshal(map[string]any) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

// section converts the values below one section's key. A section whose keys are all commented out is empty.
func (p strictYAML) section(at string, v any, wrong *Problems) map[string]any {
	var in map[string]any
	switch v := v.(type) {
	case nil:
		return nil
	case map[string]any:
		in = v
	case map[any]any:
		in = make(map[string]any, len(v))
		for key, value := range v {
			in[fmt.Sprint(key)] = value
		}
	default:
		*wrong = append(*wrong, fmt.Sprintf("%s: must be a section, not %s", cmp.Or(at, "the file"), yamlType(v)))
		return nil
	}
	if p.known.foreign[at] {
		return nil
	}
	out := make(map[string]any, len(in))
	for _, name := range slices.Sorted(maps.Keys(in)) {
		p.entry(out, at, name, in[name], wrong)
	}
	return out
}

func (p strictYAML) entry(out map[string]any, at, name string, v any, wrong *Problems) {
	key := strings.TrimPrefix(at+"."+name, ".")
	f, leaf := p.known.fields[key]
	switch {
	case strings.Contains(name, ".") && (leaf || p.known.sections[key]):
		*wrong = append(*wrong, fmt.Sprintf("%s: write it as nested sections, not with a dot", key))
	case name != "" && p.known.sections[key]:
		if sub := p.section(key, v, wrong); len(sub) > 0 {
			out[name] = sub
		}
	case !leaf:
		problem := fmt.Sprintf("unknown key %q", key)
		if near := p.known.nearKey(key); near != "" {
			problem += fmt.Sprintf(", did you mean %q?", near)
		}
		*wrong = append(*wrong, problem)
	case key == queuesKey:
		names, limits, err := queueList(v)
		if err != nil {
			*wrong = append(*wrong, fmt.Sprintf("%s: %v", key, err))
			return
		}
		out[name] = names
		maps.Copy(p.limits, limits)
	default:
		value, err := f.fromYAML(v)
		if err != nil {
			*wrong = append(*wrong, fmt.Sprintf("%s: %v", key, err))
			return
		}
		out[name] = value
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
