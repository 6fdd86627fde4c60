package statement

import "strings"

// Effect is what a statement may do to the transaction that runs it.
type Effect int

// The effects.
const (
	Plain  Effect = iota // it does nothing that a rollback would not undo
	Ends                 // it ends the transaction
	Opaque               // its text does not tell
)

// effects of statements by their first word; missing words are opaque.
var effects = map[string]Effect{
	"SELECT": Plain, "INSERT": Plain, "UPDATE": Plain, "DELETE": Plain, "REPLACE": Plain,
	"WITH": Plain, "VALUES": Plain, "TABLE": Plain, "DO": Plain, "SHOW": Plain, "EXPLAIN": Plain,
	"DESCRIBE": Plain, "DESC": Plain, "SIGNAL": Plain, "KILL": Plain, "SAVEPOINT": Plain,
	"RELEASE": Plain, "USE": Plain, "PREPARE": Plain, "DEALLOCATE": Plain, "HANDLER": Plain,
	"LOAD": Plain, "PRAGMA": Plain,

	"COMMIT": Ends, "BEGIN": Ends, "START": Ends, "END": Ends, "XA": Ends, "LOCK": Ends,
	"UNLOCK": Ends, "ALTER": Ends, "TRUNCATE": Ends, "RENAME": Ends, "GRANT": Ends,
	"REVOKE": Ends, "ANALYZE": Ends, "OPTIMIZE": Ends, "REPAIR": Ends, "CHECK": Ends,
	"FLUSH": Ends, "RESET": Ends, "INSTALL": Ends, "UNINSTALL": Ends, "IMPORT": Ends, "CACHE": Ends,
}

// EffectOf tells from a statement's text what it may do to its transaction.
func EffectOf(query string) Effect {
	word, after := FirstWord(query)
	switch word {
	case "ROLLBACK":
		if next, more := FirstWord(after); next == "TO" || next == "WORK" && StartsWith(more, "TO") {
			return Plain
		}
		return Ends
	case "CREATE", "DROP":
		if StartsWith(after, "TEMPORARY") || StartsWith(after, "OR") && strings.Contains(strings.ToUpper(after), "TEMPORARY") {
			return Plain
		}
		return Ends
	case "SET":
		if upper := strings.ToUpper(after); strings.Contains(upper, "AUTOCOMMIT") || strings.Contains(upper, "PASSWORD") {
			return Ends
		}
		return Plain
	}
	if e, ok := effects[word]; ok {
		return e
	}
	return Opaque
}
