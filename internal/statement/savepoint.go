package statement

import "strings"

// Savepoint returns the name that SAVEPOINT name sets, or to which ROLLBACK TO name goes back, in small letters, as the server
// compares them. The name is empty for every other statement. Nested transactions of GORM, bun and others are made of the
// two; what a transaction remembers beside the database must go back with it.
func Savepoint(statement string) (name string, back bool) {
	words := strings.Fields(strings.TrimRight(bare(statement), "; \t\r\n"))
	if len(words) == 2 && strings.EqualFold(words[0], "SAVEPOINT") {
		return plain(words[1]), false
	}
	if len(words) < 3 || !strings.EqualFold(words[0], "ROLLBACK") {
		return "", false
	}
	words = skip(words[1:], "WORK", "TRANSACTION")
	if !strings.EqualFold(words[0], "TO") {
		return "", false
	}
	if words = words[1:]; len(words) > 1 {
		words = skip(words, "SAVEPOINT")
	}
	if len(words) != 1 {
		return "", false
	}
	return plain(words[0]), true
}

// skip leaves out the first word if it is one of these.
func skip(words []string, of ...string) []string {
	for _, word := range of {
		if strings.EqualFold(words[0], word) {
			return words[1:]
		}
	}
	return words
}

// bare takes the comments away in which tracers note where a statement comes from. Few statements have any, and most are
// told from the two by their first letter.
func bare(statement string) string {
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

// plain is a name without its quotes.
func plain(name string) string { return strings.ToLower(strings.Trim(name, "`\"")) }
