// Package statement tells from the text of a SQL statement what it may do to its transaction and its session beyond its
// rows. It never trusts a text that it does not know: Guard has the server tell whether the transaction still stands.
package statement

import "strings"

// maxWords is how many words at a statement's beginning are kept: enough for each statement about transactions.
const maxWords = 8

// reading is what one pass over a statement's text finds, without its comments.
type reading struct {
	words   []word
	hidden  bool // a comment that a server may run, and that may be more than a part of the first statement
	partly  bool // another such comment
	several bool // a statement after another one
	unsure  bool // more than rows may change, or the text's strings end where the server's mode says
}

// word is a word, a quoted name, or a mark such as =. Strings are left out.
type word struct {
	text   string // in capitals; a quoted name as it stands
	quoted bool
}

func (w word) is(text string) bool { return !w.quoted && w.text == text }

// read reads a statement as MySQL and MariaDB do. Where their modes make a difference, the reading is unsure.
func read(text string) reading {
	var r reading
	marks := strings.ContainsAny(text, ";@!") // that would count if a string ended before them
	ended := false                            // after a semicolon
	for {
		text = skipBlank(text, &r)
		if text == "" {
			break
		}
		token := nextToken(text)
		text = text[len(token):]
		if token == ";" {
			ended = len(r.words) > 0
			continue
		}
		r.several = r.several || ended
		r.unsure = r.unsure || marks && (token[0] == '\'' || token[0] == '"') && strings.Contains(token, `\`)
		if r.take(token); len(r.words) == maxWords {
			text = skipPlain(text)
		}
	}
	return r
}

// take keeps a token if it is one of the first, and notes what reaches beyond rows: a user's variable, a named lock.
func (r *reading) take(token string) {
	first := token[0]
	r.unsure = r.unsure || first == '@' && !strings.HasPrefix(token, "@@") || strings.EqualFold(token, "GET_LOCK")
	switch {
	case len(r.words) == maxWords, len(r.words) == 0 && first == '(', first == '\'':
	case first == '`' || first == '"':
		r.words = append(r.words, word{strings.Trim(token, token[:1]), true})
	default:
		r.words = append(r.words, word{strings.ToUpper(token), false})
	}
}

// skipPlain skips what can't begin anything that matters behind a statement's first words: a long list of values costs little.
func skipPlain(text string) string {
	if i := strings.IndexAny(text, "'\"`#-/;@gG"); i >= 0 {
		return text[i:]
	}
	return ""
}

// skipBlank skips blanks and comments. The text of a comment that a server runs is read like any other.
func skipBlank(text string, r *reading) string {
	for {
		text = strings.TrimLeft(text, " \t\r\n\f\v\x00")
		switch {
		case strings.HasPrefix(text, "/*!"), strings.HasPrefix(text, "/*M!"):
			text = text[strings.Index(text, "!")+1:]
			content, _, closed := strings.Cut(text, "*/")
			r.partly = true
			r.hidden = r.hidden || len(r.words) == 0 || !closed || strings.ContainsAny(content, "'\"`;#-/")
			text = strings.TrimLeft(text, "0123456789")
		case strings.HasPrefix(text, "*/"):
			text = text[2:]
		case strings.HasPrefix(text, "/*"):
			_, text, _ = strings.Cut(text[2:], "*/")
		case text != "" && text[0] == '#', strings.HasPrefix(text, "--") && (len(text) == 2 || text[2] <= ' '):
			_, text, _ = strings.Cut(text, "\n")
		default:
			return text
		}
	}
}

// nextToken returns the token that text begins with: a word, a variable, what is quoted, or one mark.
func nextToken(text string) string {
	switch c := text[0]; {
	case c == '\'' || c == '"' || c == '`':
		return text[:quotedLen(text)]
	case c == '@' || inWord(c):
		n := 1
		for n < len(text) && (inWord(text[n]) || c == '@' && (text[n] == '@' || text[n] == '.')) {
			n++
		}
		return text[:n]
	}
	return text[:1]
}

func inWord(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

// quotedLen returns the length of what is quoted at the beginning of text, up to its end if it is never closed.
func quotedLen(text string) int {
	quote := text[0]
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote != '`':
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return len(text)
}
