package report

import (
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
	head, rest, found := strings.Cut(string(old), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("write the report: %s has no place for it", page)
	}
	plots, undrawn := r.draw(filepath.Join(root, "docs", "benchmarks")) // the tables are worth more
	var pictures strings.Builder
	for _, p := range plots {
		fmt.Fprintf(&pictures, "\n![%s](benchmarks/%s)\n", p.title, p.file)
	}
	text := head + begin + r.Markdown() + pictures.String() + end + tail
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil { //nolint:gosec // the page that was read
		return fmt.Errorf("write the report: %w", err)
	}
	return undrawn
}
