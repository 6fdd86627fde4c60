package statement

import "strings"

// Savepoint returns the savepoint that SAVEPOINT sets or to which ROLLBACK TO goes back, in small letters, as the server
// compares names. The name is empty for every other statement. GORM, bun and others nest transactions by these two
// statements; what a transaction keeps in memory must go back with them.
func Savepoint(statement string) (name string, back bool) {
	words := strings.Fields(strings.TrimRight(withoutComments(statement), "; \t\r\n"))
	if len(words) == 2 && strings.EqualFold(words[0], "SAVEPOINT") {
		return unquote(words[1]), false
	}
	if len(words) < 3 || !strings.EqualFold(words[0], "ROLLBACK") {
		return "", false
	}
	words = skipOptional(words[1:], "WORK", "TRANSACTION")
	if !strings.EqualFold(words[0], "TO") {
		return "", false
	}
	if words = words[1:]; len(words) > 1 {
		words = skipOptional(words, "SAVEPOINT")
	}
	if len(words) != 1 {
		return "", false
	}
	return unquote(words[0]), true
}

// skipOptional leaves out the first word if it is one of the optional ones.
func skipOptional(words []string, optional ...string) []string {
	for _, word := range optional {
		if strings.EqualFold(words[0], word) {
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
