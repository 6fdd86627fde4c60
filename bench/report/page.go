package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	begin = "<!-- results -->\n"
	end   = "<!-- end of results -->\n"
)

// Write puts the report between the marks of docs/BENCHMARKS.md under root, whose text is written by hand, and draws
// the plots into docs/benchmarks.
func (r *Results) Write(root string) error {
	page := filepath.Join(root, "docs", "BENCHMARKS.md")
	old, err := os.ReadFile(page) //nolint:gosec // a page of this repository
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	plots, undrawn := r.draw(filepath.Join(root, "docs", "benchmarks")) // the tables are worth more
	var pictures strings.Builder
	for _, p := range plots {
		fmt.Fprintf(&pictures, "\n![%s](benchmarks/%s)\n", p.title, p.file)
	}
	text, err := between(string(old), begin, end, r.Markdown()+pictures.String())
	if err != nil {
		return fmt.Errorf("write the report: %s %w", page, err)
	}
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil { //nolint:gosec // the page that was read
		return fmt.Errorf("write the report: %w", err)
	}
	return undrawn
}

// writePart puts text between the marks of this name of a page whose other text is written by hand.
func writePart(page, name, text string) error {
	old, err := os.ReadFile(page) //nolint:gosec // a page of this repository
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	text, err = between(string(old), "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n", text)
	if err != nil {
		return fmt.Errorf("write the report: %s %w", page, err)
	}
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil { //nolint:gosec // the page that was read
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// between replaces what stands between two marks of a page.
func between(page, begin, end, text string) (string, error) {
	head, rest, found := strings.Cut(page, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", errors.New("has no place for it")
	}
	return head + begin + text + end + tail, nil
}
