package statement

import (
	"regexp"
	"strings"
)

// Effect is what a statement may do to the transaction and the session that run it.
type Effect int

// The effects.
const (
	Plain  Effect = iota // it reads or changes rows: a rollback undoes it, and nothing of it outlives the transaction
	Nests                // it sets a savepoint, goes back to one, or releases one: see Savepoint
	Ends                 // it ends the transaction
	Opaque               // the text doesn't tell: it may end the transaction, or change the session
)

// effects of statements by their first word. Statements with other words are opaque.
var effects = map[string]Effect{
	"SELECT": Plain, "INSERT": Plain, "UPDATE": Plain, "DELETE": Plain, "REPLACE": Plain, "WITH": Plain, "VALUES": Plain,
	"TABLE": Plain, "DO": Plain, "SHOW": Plain, "EXPLAIN": Plain, "DESCRIBE": Plain, "DESC": Plain, "PRAGMA": Plain,

	"COMMIT": Ends, "BEGIN": Ends, "START": Ends, "END": Ends, "XA": Ends, "LOCK": Ends,
	"UNLOCK": Ends, "ALTER": Ends, "TRUNCATE": Ends, "RENAME": Ends, "GRANT": Ends,
	"REVOKE": Ends, "ANALYZE": Ends, "OPTIMIZE": Ends, "REPAIR": Ends, "CHECK": Ends,
	"FLUSH": Ends, "RESET": Ends, "INSTALL": Ends, "UNINSTALL": Ends, "IMPORT": Ends, "CACHE": Ends,
}

// EffectOf tells from a statement's text what it may do to its transaction and its session. What it calls plain or ending is
// so on each server and in each mode.
func EffectOf(text string) Effect {
	effect, _ := Describe(text)
	return effect
}

// Describe is EffectOf, with the statement's first word in capitals.
func Describe(text string) (effect Effect, first string) {
	r := read(withoutLimit(text))
	if len(r.words) == 0 {
		return Opaque, ""
	}
	first = r.words[0].text
	if effect = r.effect(); effect != Ends && (r.several || r.unsure || r.hidden || effect == Nests && r.partly) {
		effect = Opaque
	}
	return effect, first
}

// effect is the effect of the first statement, by its words alone.
func (r reading) effect() Effect {
	switch first := r.words[0]; {
	case first.quoted:
		return Opaque
	case first.is("ROLLBACK"), first.is("SAVEPOINT"), first.is("RELEASE"):
		if name, _ := r.savepoint(); name != "" {
			return Nests
		}
		if first.is("ROLLBACK") && !r.has("TO") {
			return Ends
		}
	case first.is("CREATE"), first.is("DROP"):
		if temporary := r.at(1, "TEMPORARY") || r.at(1, "OR") && r.at(3, "TEMPORARY"); !temporary {
			return Ends
		}
	case first.is("SET"):
		if r.has("AUTOCOMMIT") || r.has("PASSWORD") || r.at(1, "DEFAULT") {
			return Ends
		}
	case first.is("LOAD") && r.at(1, "INDEX"):
		return Ends
	default:
		if effect, known := effects[first.text]; known {
			return effect
		}
	}
	return Opaque
}

// at reports whether the word at a place is this one.
func (r reading) at(i int, text string) bool { return i < len(r.words) && r.words[i].is(text) }

// has reports whether one of the first words is, or names the variable of, this one.
func (r reading) has(text string) bool {
	for _, w := range r.words {
		if _, variable, _ := strings.Cut(w.text, "."); w.text == text || variable == text || w.text == "@@"+text {
			return true
		}
	}
	return false
}

// limit is MariaDB's time limit of one statement, which ends with the statement behind it. It may stand in a comment for MariaDB.
var limit = regexp.MustCompile(`(?i)^\s*(?:/\*M!\d*\s*)?SET\s+STATEMENT\s+max_statement_time\s*=\s*[\d.]+\s+FOR\b\s*(?:\*/)?`)

func withoutLimit(text string) string {
	if !strings.Contains(strings.ToUpper(text[:min(len(text), 40)]), "STATEMENT") {
		return text
	}
	return text[len(limit.FindString(text)):]
}
