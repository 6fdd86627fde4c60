package statement_test

import (
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/statement"
)

func BenchmarkEffectOf(b *testing.B) {
	for name, text := range map[string]string{
		"short": "UPDATE pets SET meals = meals + 1, fed_at = ? WHERE id = ? AND owner = ?",
		"bulk":  "INSERT INTO duetime_tasks (id, owner, kind) VALUES " + strings.Repeat(",(?,?,?,?,?,?,?,?,?,?,?,?,?,?)", 1000)[1:],
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				statement.EffectOf(text)
			}
		})
	}
}
