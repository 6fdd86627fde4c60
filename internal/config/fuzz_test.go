package config

import (
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// checkError checks an error of parse: one line, which names what is wrong.
func checkError(t *testing.T, err error, names ...string) {
	t.Helper()
	if strings.ContainsAny(err.Error(), "\n\r") {
		t.Errorf("an error of several lines: %q", err)
	}
	if !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(err.Error(), name) }) {
		t.Errorf("an error that doesn't say where: %q", err)
	}
}

// shop is a program's own section. It uses the only name that such a section may have, and the keys of the shipped file.
type shop struct {
	Admin   string        `key:"admin" form:"addr"`
	Listen  string        `key:"listen" form:"addr"`
	Meal    time.Duration `key:"meal"`
	Speedup time.Duration `key:"speedup"`
	Start   struct {
		Food          int `key:"food"`
		SpeedupCards  int `key:"speedup_cards"`
		AutofeedCards int `key:"autofeed_cards"`
	} `key:"start"`
}

func (*shop) Name() string { return "game" }

func (s *shop) Validate(p *Problems) {
	p.CheckAdmin("game.admin", s.Admin)
	p.CheckAdmin("game.listen", s.Listen)
	p.CheckDuration("game.meal", s.Meal, 0, 100*time.Hour)
	p.CheckInt("game.start.food", s.Start.Food, 0, 1_000_000)
}

// FuzzParse parses any file, with one variable of any name. The result must be within the limits, or the error must name
// the key or say what is wrong with the whole file.
func FuzzParse(f *testing.F) {
	shipped, err := os.ReadFile("../../configs/duetime.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(shipped, "DUETIME_MYSQL__DSN=root:hunter2@tcp(h)/d")
	f.Add([]byte("a: &x {<<: *x}\n1: {null: ~}\nmysql: {? [a] : b}"), "DUETIME_GAME__START__FOOD=1")
	f.Add([]byte("kafka: !!binary aGk=\n\x00"), "=")
	f.Add([]byte("queues: [a, b]\nredis: {mode: cluster, addrs: ['a:1', 'b:2']}\nevent: {lead: 0, admin: 9000}"), "DUETIME_X__\n=")
	places := append(Keys(&shop{}), "unknown key", "unknown environment variable", "yaml:", "more than one YAML document", "the file:")
	for section := range newSchema(&shop{}).sections {
		if section != "" {
			places = append(places, section+": must be a section")
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, variable string) {
		section := &shop{}
		c, err := parse(data, []string{variable}, section)
		if err != nil {
			checkError(t, err, places...)
			return
		}
		if err := c.validate(section); err != nil {
			t.Errorf("parse let pass what Validate refuses: %v", err)
		}
	})
}

// FuzzEnvironment sets any key to any text by its variable. Then only that key must have changed, to this value, or the
// error must name the variable or the key, and no password.
func FuzzEnvironment(f *testing.F) {
	var keys []string
	for _, key := range Keys(&shop{}) {
		if key != "queues" { // only the file sets it
			keys = append(keys, key)
		}
	}
	for i := range keys {
		for _, text := range []string{"", "7", " 50ms ", "a:1, b:2", ":9000", "cluster", "root:p@tcp(h:1)/d", "-9223372036854775809"} {
			f.Add(uint8(i), text)
		}
	}
	fields := newSchema(&shop{}).fields
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		key := keys[int(which)%len(keys)]
		name := envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", levelMark))
		const secret = "hunter2"
		hidden := fields[key].value.Type() == reflect.TypeFor[DSN]() || fields[key].value.Type() == reflect.TypeFor[Secret]()
		if hidden {
			text += secret
		}
		section := &shop{}
		c, err := parse(nil, []string{name + "=" + text}, section)
		if err != nil {
			checkError(t, err, name, key)
			if hidden && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: a password in %q", key, err)
			}
			return
		}
		want := Default()
		for _, field := range fieldsOf(&c, section) {
			if field.key == key {
				if got := reread(field, text); !cmp.Equal(got, field.value.Interface()) {
					t.Errorf("%s = %q became %v, want %v", name, text, field.value, got)
				}
				field.value.Set(fields[key].value) // so that all other keys can be compared
			}
		}
		if diff := cmp.Diff(want, c) + cmp.Diff(&shop{}, section); diff != "" {
			t.Errorf("%s changed more than its key (-want +got):\n%s", name, diff)
		}
	})
}

// reread parses an accepted text as docs/CONFIG.md describes it.
func reread(f field, text string) any {
	trimmed := strings.TrimSpace(text)
	switch f.value.Interface().(type) {
	case int:
		n, _ := strconv.Atoi(trimmed)
		return n
	case time.Duration:
		d, _ := time.ParseDuration(trimmed)
		return d
	case Secret:
		return Secret(text)
	case DSN:
		return DSN(text)
	case []string:
		if trimmed == "" {
			return []string{}
		}
		items := strings.Split(text, ",")
		for i := range items {
			items[i] = strings.TrimSpace(items[i])
		}
		return items
	}
	if f.form == formAddr {
		return Loopback(text)
	}
	return text
}
