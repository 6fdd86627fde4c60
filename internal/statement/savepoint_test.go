package statement_test

import (
	"testing"

	"github.com/duetime/duetime/internal/statement"
)

func TestSavepoint(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		name string
		use  statement.Use
	}{
		"SAVEPOINT sp1":        {"sp1", statement.Sets},
		" savepoint `Sp1` ;\n": {"sp1", statement.Sets},
		"SAVEPOINT SP_1 /* app='shop', route='/pay' */": {"sp_1", statement.Sets},
		"/* traced */ ROLLBACK TO SAVEPOINT sp824633":   {"sp824633", statement.GoesBack},
		"ROLLBACK TO sp1":                              {"sp1", statement.GoesBack},
		"rollback work to savepoint SP1;":              {"sp1", statement.GoesBack},
		"ROLLBACK TRANSACTION TO SAVEPOINT \"x\"":      {"x", statement.GoesBack},
		"ROLLBACK TO savepoint":                        {"savepoint", statement.GoesBack}, // savepoint may also be a name
		"ROLLBACK":                                     {},
		"ROLLBACK AND CHAIN":                           {},
		"ROLLBACK WORK TO":                             {},
		"ROLLBACK TO a b c":                            {},
		"RELEASE SAVEPOINT sp1":                        {"sp1", statement.Releases},
		"/* traced */ release `Sp1`;":                  {"sp1", statement.Releases},
		"RELEASE SAVEPOINT a b":                        {},
		"RELEASE":                                      {},
		"SAVEPOINT":                                    {},
		"SELECT 'SAVEPOINT sp1'":                       {},
		"INSERT INTO notes VALUES ('ROLLBACK TO sp1')": {},
		"SAVEPOINT a b":                                {},
		"/* never closed SAVEPOINT a":                  {},
		"":                                             {},
		"UPDATE savepoint SET a = 1":                   {},
		"select /* ROLLBACK TO x */ 1, 2 from t order b": {},
	} {
		if name, use := statement.Savepoint(text); name != want.name || use != want.use {
			t.Errorf("%q: got %q, %v, want %q, %v", text, name, use, want.name, want.use)
		}
	}
}
