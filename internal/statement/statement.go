// Package statement tells from the text of a SQL statement what it may do to its transaction and its session beyond its
// rows. It keeps no state and sends nothing.
package statement

import "strings"

// FirstWord returns a statement's first word in capitals, and the text after it. It skips comments, except those whose
// content a server runs.
func FirstWord(text string) (word, after string) {
	text = skipBlank(text)
	end := strings.IndexFunc(text, func(r rune) bool { return (r|0x20 < 'a' || r|0x20 > 'z') && r != '_' })
	if end < 0 {
		end = len(text)
	}
	return strings.ToUpper(text[:end]), text[end:]
}

// StartsWith reports whether a statement's first word is word, which is in capitals.
func StartsWith(text, word string) bool {
	first, _ := FirstWord(text)
	return first == word
}

func skipBlank(text string) string {
	for {
		text = strings.TrimLeft(text, " \t\r\n\f\v(;")
		switch {
		case strings.HasPrefix(text, "/*!"), strings.HasPrefix(text, "/*M!"):
			text = strings.TrimLeft(text[strings.Index(text, "!")+1:], "0123456789")
		case strings.HasPrefix(text, "/*"):
			_, text, _ = strings.Cut(text, "*/")
		case strings.HasPrefix(text, "-- "), strings.HasPrefix(text, "--\n"), strings.HasPrefix(text, "#"):
			_, text, _ = strings.Cut(text, "\n")
		default:
			return text
		}
	}
}

// LeavesTrace reports whether a statement changes its session in a way that the end of its transaction does not undo: a
// variable, a temporary table, a lock, the schema in use, a prepared statement, a transaction of its own.
func LeavesTrace(text string) bool {
	switch word, after := FirstWord(text); word {
	case "SET":
		return !setsForSelect(after)
	case "USE", "PREPARE", "HANDLER", "CREATE", "LOCK", "FLUSH", "BEGIN", "START", "XA":
		return true
	}
	return false
}

// setsForSelect reports whether a SET, of which this is the text after the word, is MariaDB's SET STATEMENT … FOR of a SELECT:
// it holds for that SELECT alone. Its first part may stand in a comment for MariaDB.
func setsForSelect(after string) bool {
	word, after := FirstWord(after)
	_, what, _ := strings.Cut(after, " FOR")
	return word == "STATEMENT" && StartsWith(strings.TrimPrefix(what, "*/"), "SELECT")
}
