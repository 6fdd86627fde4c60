package consoleweb

import (
	"context"
	"fmt"
	"strings"

	"github.com/duetime/duetime/pkg/console"
)

// whyLate reads why tasks are late, for all viewers together; no answers before the first reading, and after one that failed.
func whyLate(ctx context.Context, v *visit) reading[console.Explanation] {
	read := readFor(ctx, v, "why", v.site.c.Why)
	if read.err != nil {
		read.value = console.Explanation{}
	}
	return read
}

// saidAnswer is an answer in the user's language.
type saidAnswer struct{ Sentence, Act, Runbook, Class string }

// Lead is the first sentence.
func (a saidAnswer) Lead() string { return strings.TrimSpace(strings.TrimSuffix(a.Sentence, a.More())) }

// More is what follows the first sentence.
func (a saidAnswer) More() string {
	for _, end := range []string{". ", "。"} {
		if _, after, ends := strings.Cut(a.Sentence, end); ends {
			return after
		}
	}
	return ""
}

// Answers are an explanation's answers in the user's language.
func (v *visit) Answers(e console.Explanation) (all []saidAnswer) {
	for _, a := range e.Answers {
		said := saidAnswer{Runbook: a.Runbook, Class: "why"}
		if !a.Fine() {
			said.Class = "why warn"
		}
		said.Sentence, said.Act = a.In(v.lang, v.piece)
		all = append(all, said)
	}
	return all
}

// Unread names what an explanation lacks, in the user's language. ZooKeeper is not named: a service's own console never asks it.
func (v *visit) Unread(e console.Explanation) string {
	var parts []string
	for _, part := range e.Unread {
		switch part {
		case "ZooKeeper":
		case "Redis", "Kafka":
			parts = append(parts, part)
		default:
			parts = append(parts, v.T("part."+part))
		}
	}
	return strings.Join(parts, v.T("comma"))
}

// piece is a piece of the evidence, by its name.
func (v *visit) piece(name string, value any) string {
	switch value := value.(type) {
	case int64:
		if strings.HasSuffix(name, "_ms") {
			return v.Span(value)
		}
		return v.N(value)
	case int:
		return v.N(value)
	case float64:
		return fmt.Sprintf("%.1f/s", value)
	}
	return cleaned(fmt.Sprint(value))
}
