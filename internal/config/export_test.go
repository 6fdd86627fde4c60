package config

import "strings"

// Keys lists every key in the order of Table, levels joined by dots.
func Keys(sections ...Section) []string {
	c := Default()
	fields := fieldsOf(&c, sections...)
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	return keys
}

// Table renders every key with its default and its meaning as a Markdown table. A test compares docs/CONFIG.md with it.
func Table(sections ...Section) string {
	c := Default()
	var b strings.Builder
	b.WriteString("| key | default | meaning |\n|---|---|---|\n")
	for _, f := range fieldsOf(&c, sections...) {
		text := "`" + f.text() + "`"
		if text == "``" {
			text = "empty"
		}
		b.WriteString("| `" + f.key + "` | " + text + " | " + f.doc + " |\n")
	}
	return b.String()
}
