package statement

import (
	"slices"
	"strings"
	"unicode"
)

// Use is what a statement does with a savepoint.
type Use int

// The uses.
const (
	Sets     Use = iota // SAVEPOINT
	GoesBack            // ROLLBACK TO: the savepoint stays, those that were set later are gone
	Releases            // RELEASE SAVEPOINT: those that were set later are gone too
)

// Savepoint returns the savepoint that a statement uses, in small letters, as the server compares names. The name is empty for
// every statement that does not nest. GORM, bun and others nest transactions by these statements; what a transaction keeps in
// memory must follow them.
func Savepoint(text string) (name string, use Use) {
	if r := read(text); len(r.words) > 0 && !r.several && !r.partly && r.effect() == Nests {
		return r.savepoint()
	}
	return "", Sets
}

func (r reading) savepoint() (name string, use Use) {
	words := r.words[1:]
	switch first := r.words[0]; {
	case first.is("RELEASE"):
		use, words = Releases, skipOptional(words, "SAVEPOINT")
	case first.is("ROLLBACK"):
		words = skipOptional(words, "WORK", "TRANSACTION")
		if len(words) == 0 || !words[0].is("TO") {
			return "", Sets
		}
		use, words = GoesBack, skipOptional(words[1:], "SAVEPOINT")
	}
	if len(words) != 1 || !words[0].comparable() {
		return "", Sets
	}
	return strings.ToLower(words[0].text), use
}

// comparable reports whether two such names are the same to the server exactly if their small letters are: it ignores accents, and
// blanks at the end.
func (w word) comparable() bool {
	return !strings.HasSuffix(w.text, " ") && !strings.ContainsFunc(w.text, func(r rune) bool { return r > unicode.MaxASCII })
}

// skipOptional leaves out the first of several words if it is one of the optional ones.
func skipOptional(words []word, optional ...string) []word {
	if len(words) > 1 && slices.ContainsFunc(optional, words[0].is) {
		return words[1:]
	}
	return words
}
