package consoleweb

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/duetime/duetime/pkg/task"
)

// clause is a condition of a query. A word by itself has no key until it is known what it names.
type clause struct{ Key, Value string }

// query is what a search asks for: tasks that meet all of its clauses.
type query []clause

const (
	maxQuery   = 32 << 10
	maxClauses = 220 // of a query: more than a filter can have

	keyLate = "late" // has no value
	byRun   = "run"  // bounds the next attempt, where due bounds the due time
)

// queryKeys are the keys of clauses with values, in the order in which they are offered.
func queryKeys() []string {
	return []string{"owner", "kind", "queue", "state", "label", "subject", "due", byRun, "id", "-kind", "-label"}
}

// repeats reports whether a query may have several clauses of the key.
func repeats(key string) bool { return key == "label" || strings.HasPrefix(key, "-") }

var (
	errNoClause = fmt.Errorf("%w as a part of a query", errMistake)
	errBeside   = fmt.Errorf("%w beside the other parts of the query", errMistake)
)

// clauseError says what is wrong with a clause, as it was typed.
type clauseError struct {
	clause string
	err    error
}

func (e *clauseError) Error() string { return e.clause + ": " + e.err.Error() }
func (e *clauseError) Unwrap() error { return e.err }

// String is the clause as readQuery reads it.
func (c clause) String() string {
	quoted := strings.HasPrefix(c.Value, `"`) || strings.ContainsFunc(c.Value, unicode.IsSpace)
	head := c.Key + ":"
	switch c.Key {
	case keyLate:
		return keyLate
	case "":
		head, quoted = "", quoted || c.Value == keyLate || strings.HasPrefix(c.Value, "-") || strings.Contains(c.Value, ":")
	}
	if quoted || c.Value == "" {
		return head + strconv.Quote(c.Value)
	}
	return head + c.Value
}

// String is the query as readQuery reads it.
func (q query) String() string {
	words := make([]string, len(q))
	for i, c := range q {
		words[i] = c.String()
	}
	return strings.Join(words, " ")
}

// readQuery reads clauses with spaces between them: key:value, late, or a word that names something. A value with spaces stands in
// quotes, as Go writes a string.
func readQuery(text string) (query, error) {
	if len(text) > maxQuery {
		return nil, &clauseError{fmt.Sprint(len(text), " bytes"), errBeside}
	}
	var q query
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		word := text
		if end := strings.IndexFunc(text, unicode.IsSpace); end > 0 {
			word = text[:end]
		}
		key, value, keyed := strings.Cut(word, ":")
		if !keyed || word[0] == '"' {
			key, value, keyed = "", word, false
		}
		wrong := &clauseError{word, errNoClause}
		quoted := strings.HasPrefix(value, `"`)
		if quoted {
			head := word[:len(word)-len(value)]
			inQuotes, err := strconv.QuotedPrefix(text[len(head):])
			if err == nil {
				value, err = strconv.Unquote(inQuotes)
			}
			if err != nil {
				return nil, wrong
			}
			word = head + inQuotes
		}
		text = text[len(word):]
		switch {
		case text != "" && strings.IndexFunc(text, unicode.IsSpace) != 0, // something stands right behind a quote
			value == "", keyed && !slices.Contains(queryKeys(), key), !keyed && !quoted && value[0] == '-':
			return nil, wrong
		case !keyed && !quoted && value == keyLate:
			key, value = keyLate, ""
		}
		if len(q) == maxClauses { // the page has a link for each clause, with all others
			return nil, &clauseError{word, errBeside}
		}
		q = append(q, clause{key, value})
	}
	return q, nil
}

// has reports whether a clause has the key.
func (q query) has(key string) bool {
	return slices.ContainsFunc(q, func(c clause) bool { return c.Key == key })
}

// Value is that of the first clause with the key; empty if there is none.
func (q query) Value(key string) string {
	for _, c := range q {
		if c.Key == key {
			return c.Value
		}
	}
	return ""
}

// Without is the query without its i-th clause.
func (q query) Without(i int) query { return slices.Delete(slices.Clone(q), i, i+1) }

// With is the query with one clause more, in place of those that can't stand beside it.
func (q query) With(key, value string) query {
	kept := slices.DeleteFunc(slices.Clone(q), func(old clause) bool {
		return old.Key == key || old.Key == "id" || old.Key == byRun && key == "owner" || old.Key == keyLate && key == "state" && value != task.Pending.String()
	})
	return append(kept, clause{key, value})
}
