package config

import (
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// String lists every key and its value, a line each, with the passwords masked.
func (c Config) String() string { return Print(c) }

// Print is String with the keys of sections too.
func Print(c Config, sections ...Section) string {
	var b strings.Builder
	for _, f := range fieldsOf(&c, sections...) {
		b.WriteString(f.key + ": " + c.textOf(f) + "\n")
	}
	return b.String()
}

// GoString returns String for the verb %#v.
func (c Config) GoString() string { return c.String() }

// LogValue returns one attribute for each key.
func (c Config) LogValue() slog.Value {
	fields := fieldsOf(&c)
	attrs := make([]slog.Attr, len(fields))
	for i, f := range fields {
		attrs[i] = slog.String(f.key, c.textOf(f))
	}
	return slog.GroupValue(attrs...)
}

// textOf returns the value of one of the configuration's fields as the file would have it.
func (c Config) textOf(f field) string {
	if f.key == queuesKey {
		return c.queuesText()
	}
	return f.text()
}

// text returns the field's value as the file would have it, with its password masked.
func (f field) text() string {
	switch v := f.value.Interface().(type) {
	case time.Duration:
		return formatDuration(v)
	case int:
		return strconv.Itoa(v)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	case []string:
		return "[" + strings.Join(v, ", ") + "]"
	case Secret:
		return v.String()
	case DSN:
		return v.String()
	case ownForm:
		return v.String()
	}
	return f.value.String()
}

// formatDuration is Duration.String without the zero units at its end: 168h, not 168h0m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
