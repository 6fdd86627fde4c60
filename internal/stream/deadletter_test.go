package stream

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

func TestDeadLetterFits(t *testing.T) {
	t.Parallel()
	wide := strings.Repeat("\x01", 100_000) // JSON takes six bytes for each
	for name, d := range map[string]protocol.DeadLetter{
		"small":      {ID: task.NewID(), Owner: "o", Error: "cause"},
		"everything": {Kind: wide, Owner: wide, Queue: wide, Error: wide, Raw: []byte(wide)},
		"bytes":      {Error: strings.Repeat("\xff", 100_000)},
		"cut rune":   {Error: strings.Repeat("日", 4000)},
	} {
		b, err := encodeDeadLetter(d)
		if err != nil || len(b) > maxLetterBytes {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
		var back protocol.DeadLetter
		if err := json.Unmarshal(b, &back); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
