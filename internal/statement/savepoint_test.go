package statement_test

import (
	"testing"

	"github.com/duetime/duetime/internal/statement"
)

func TestSavepoint(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		name string
		back bool
	}{
		"SAVEPOINT sp1":        {"sp1", false},
		" savepoint `Sp1` ;\n": {"sp1", false},
		"SAVEPOINT SP_1 /* app='shop', route='/pay' */": {"sp_1", false},
		"/* traced */ ROLLBACK TO SAVEPOINT sp824633":   {"sp824633", true},
		"ROLLBACK TO sp1":                              {"sp1", true},
		"rollback work to savepoint SP1;":              {"sp1", true},
		"ROLLBACK TRANSACTION TO SAVEPOINT \"x\"":      {"x", true},
		"ROLLBACK TO savepoint":                        {"savepoint", true}, // savepoint may also be a name
		"ROLLBACK":                                     {},
		"ROLLBACK AND CHAIN":                           {},
		"ROLLBACK WORK TO":                             {},
		"ROLLBACK TO a b c":                            {},
		"RELEASE SAVEPOINT sp1":                        {},
		"SAVEPOINT":                                    {},
		"SELECT 'SAVEPOINT sp1'":                       {},
		"INSERT INTO notes VALUES ('ROLLBACK TO sp1')": {},
		"SAVEPOINT a b":                                {},
		"/* never closed SAVEPOINT a":                  {},
		"":                                             {},
		"UPDATE savepoint SET a = 1":                   {},
		"select /* ROLLBACK TO x */ 1, 2 from t order b": {},
	} {
		if name, back := statement.Savepoint(text); name != want.name || back != want.back {
			t.Errorf("%q: got %q, back %v, want %q, %v", text, name, back, want.name, want.back)
		}
	}
}
