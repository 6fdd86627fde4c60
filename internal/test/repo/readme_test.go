package repo_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const readmeLines = 140 // nobody reads a longer README

// TestReadmesSayTheSame compares the parts that both languages must share: the order of their headings, the code, and
// each section's links and numbers.
func TestReadmesSayTheSame(t *testing.T) {
	t.Parallel()
	english, chinese := sections(t, "README.md"), sections(t, "README.zh-CN.md")
	if len(english) != len(chinese) {
		t.Fatalf("README.md has %d sections, README.zh-CN.md %d", len(english), len(chinese))
	}
	for i, s := range english {
		if diff := cmp.Diff(s, chinese[i], cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "title" }, cmp.Ignore()),
			cmp.AllowUnexported(section{})); diff != "" {
			t.Errorf("section %q (-English +Chinese):\n%s", s.title, diff)
		}
	}
}

// section is the content of a section, without its language.
type section struct {
	title   string
	level   int
	code    []string
	rows    int // of tables
	links   []string
	numbers []string
}

var (
	codeBlock = regexp.MustCompile("(?s)```.*?```")
	codeSpan  = regexp.MustCompile("`[^`\n]+`")
	link      = regexp.MustCompile(`\]\(([^)]+)\)`)
	number    = regexp.MustCompile(`\d+(?:[.,]\d+)*`)
	heading   = regexp.MustCompile(`(?m)^(#+) (.+)$`)
)

func sections(t *testing.T, file string) []section {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), "\n"); n > readmeLines {
		t.Errorf("%s has %d lines, want at most %d", file, n, readmeLines)
	}
	text := inDigits(string(b))
	blocks := codeBlock.FindAllString(text, -1)
	text = codeBlock.ReplaceAllString(text, "```")
	starts := heading.FindAllStringSubmatchIndex(text, -1)
	var all []section
	for i, at := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		body := text[at[1]:end]
		s := section{title: text[at[4]:at[5]], level: at[3] - at[2], rows: strings.Count(body, "\n|")}
		n := strings.Count(body, "```")
		s.code, blocks = append(slices.Clone(blocks[:n]), codeSpan.FindAllString(body, -1)...), blocks[n:]
		slices.Sort(s.code)
		for _, m := range link.FindAllStringSubmatch(body, -1) {
			if !strings.HasPrefix(m[1], "README") { // each README links to the other
				s.links = append(s.links, m[1])
			}
		}
		s.numbers = number.FindAllString(link.ReplaceAllString(codeSpan.ReplaceAllString(body, ""), "]"), -1)
		slices.Sort(s.numbers)
		slices.Sort(s.links)
		all = append(all, s)
	}
	return all
}

// inDigits replaces a month's English name by its number, as Chinese writes it.
func inDigits(text string) string {
	for m := time.January; m <= time.December; m++ {
		text = regexp.MustCompile(m.String()+` (\d{4})`).ReplaceAllString(text, time.Date(0, m, 1, 0, 0, 0, 0, time.UTC).Format("1")+" $1")
	}
	return text
}

// TestLinksLead checks that each link of the docs into the repository has its target, and its anchor.
func TestLinksLead(t *testing.T) {
	t.Parallel()
	pages := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"bin", "node_modules", "testdata"}, d.Name())):
			return filepath.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		pages++
		for _, m := range link.FindAllStringSubmatch(page(t, path), -1) {
			follow(t, path, m[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 30 {
		t.Errorf("only %d pages were found", pages)
	}
}

// page is a Markdown file without its blocks of code.
func page(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return codeBlock.ReplaceAllString(string(b), "")
}

func follow(t *testing.T, from, to string) {
	t.Helper()
	if strings.Contains(to, "://") {
		return
	}
	file, anchor, _ := strings.Cut(to, "#")
	target := from
	if file != "" {
		target = filepath.Join(filepath.Dir(from), file)
	}
	if _, err := os.Stat(target); err != nil {
		t.Errorf("%s links to %s: %v", from, to, err)
		return
	}
	if anchor == "" {
		return
	}
	for _, m := range heading.FindAllStringSubmatch(page(t, target), -1) {
		if anchorOf(m[2]) == anchor {
			return
		}
	}
	t.Errorf("%s links to %s: there is no such heading", from, to)
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchorOf turns a heading into the anchor that forges give it.
func anchorOf(title string) string {
	return strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
}
