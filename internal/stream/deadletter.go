package stream

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/duetime/duetime/internal/protocol"
)

const (
	maxLetterBytes      = 16 << 10
	maxLetterErrorBytes = 4 << 10 // of the error's text
)

// encodeDeadLetter writes a dead letter of at most maxLetterBytes. It cuts the texts first, then the raw message.
func encodeDeadLetter(d protocol.DeadLetter) ([]byte, error) {
	d.Kind, d.Owner, d.Queue = cut(d.Kind, maxNameBytes), cut(d.Owner, maxNameBytes), cut(d.Queue, maxNameBytes)
	d.Error = cut(d.Error, maxLetterErrorBytes)
	d.Raw = d.Raw[:min(len(d.Raw), maxRawBytes)]
	for {
		b, err := json.Marshal(d)
		if err != nil {
			return nil, fmt.Errorf("encode dead letter %s: %w", d.ID, err)
		}
		if len(b) <= maxLetterBytes {
			return b, nil
		}
		// Escapes can make a text six times as long: halve until the letter fits.
		d.Error, d.Raw = cut(d.Error, len(d.Error)/2), d.Raw[:len(d.Raw)/2]
	}
}

// cut shortens s to at most n bytes of valid UTF-8.
func cut(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "")
}
