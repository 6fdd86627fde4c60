package statement

import "strings"

// Use is what a statement does with a savepoint.
type Use int

// The uses.
const (
	Sets     Use = iota // SAVEPOINT
	GoesBack            // ROLLBACK TO: the savepoint stays, those that were set later are gone
	Releases            // RELEASE SAVEPOINT: those that were set later are gone too
)

// Savepoint returns the savepoint that a statement uses, in small letters, as the server compares names. The name is empty for
// every other statement. GORM, bun and others nest transactions by these statements; what a transaction keeps in memory must
// follow them.
func Savepoint(statement string) (name string, use Use) {
	words := strings.Fields(strings.TrimRight(withoutComments(statement), "; \t\r\n"))
	if len(words) < 2 {
		return "", Sets
	}
	switch first := words[0]; {
	case strings.EqualFold(first, "SAVEPOINT"):
		words = words[1:]
	case strings.EqualFold(first, "RELEASE"):
		use, words = Releases, skipOptional(words[1:], "SAVEPOINT")
	case strings.EqualFold(first, "ROLLBACK"):
		words = skipOptional(words[1:], "WORK", "TRANSACTION")
		if !strings.EqualFold(words[0], "TO") {
			return "", Sets
		}
		use, words = GoesBack, skipOptional(words[1:], "SAVEPOINT")
	default:
		return "", Sets
	}
	if len(words) != 1 {
		return "", Sets
	}
	return unquote(words[0]), use
}

// skipOptional leaves out the first of several words if it is one of the optional ones.
func skipOptional(words []string, optional ...string) []string {
	for _, word := range optional {
		if len(words) > 1 && strings.EqualFold(words[0], word) {
			return words[1:]
		}
	}
	return words
}

// withoutComments removes the comments in which tracers note a statement's origin. It returns nothing for a statement
// whose first letter shows that it sets or uses no savepoint: most statements cost no more than this check.
func withoutComments(statement string) string {
	statement = strings.TrimSpace(statement)
	if statement == "" || !strings.ContainsRune("sSrR/", rune(statement[0])) || len(statement) > 4<<10 {
		return ""
	}
	for {
		before, from, found := strings.Cut(statement, "/*")
		_, after, closed := strings.Cut(from, "*/")
		if !found || !closed {
			return statement
		}
		statement = before + " " + after
	}
}

func unquote(name string) string { return strings.ToLower(strings.Trim(name, "`\"")) }
