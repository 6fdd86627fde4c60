package imports

import (
	"crypto/sha256"
	"fmt"

	"github.com/duetime/duetime/pkg/task"
)

// idOf derives a task's id from the parts that tell its member apart from all others: a UUID of version 8 (RFC 9562,
// section 5.8), of 122 bits of a SHA-256. Each part follows its length, so that no two lists of parts are one text.
func idOf(parts ...string) task.ID {
	h := sha256.New()
	for _, part := range append([]string{"duetime import"}, parts...) {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	id := task.ID(h.Sum(nil)[:16])
	id[6] = id[6]&0x0f | 0x80 // version
	id[8] = id[8]&0x3f | 0x80 // variant
	return id
}
