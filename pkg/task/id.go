package task

import (
	"bytes"
	"database/sql/driver"
	"fmt"

	"github.com/google/uuid"
)

// ID names a task for its whole life. It is a UUIDv7 made by the client before the row is written, so that a commit
// whose answer was lost can be resolved by looking the id up. An imported task's is a UUIDv8 made of the source's member.
type ID [16]byte

// NewID makes a new time-ordered id: in one process, each is greater than those before it. It panics only when the system's random source is broken.
func NewID() ID {
	return ID(uuid.Must(uuid.NewV7()))
}

// ParseID reads the 36-character text form.
func ParseID(s string) (ID, error) {
	if len(s) != 36 {
		return ID{}, &FieldError{Field: "task_id", Problem: "must be a UUID of 36 characters"}
	}
	u, err := uuid.Parse(s)
	if err != nil {
		return ID{}, &FieldError{Field: "task_id", Problem: "must be a UUID of 36 characters"}
	}
	return ID(u), nil
}

// String returns the 36-character text form.
func (id ID) String() string { return uuid.UUID(id).String() }

// IsZero reports whether no id was set.
func (id ID) IsZero() bool { return id == ID{} }

// Compare orders ids by their bytes, which is the order in which rows are locked.
func (id ID) Compare(other ID) int { return bytes.Compare(id[:], other[:]) }

// MarshalText returns the text form, so that JSON carries ids as strings.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the text form.
func (id *ID) UnmarshalText(b []byte) error {
	parsed, err := ParseID(string(b))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// Value stores the id in a column of the service's own as its 36-character text, NULL for the zero id. For a BINARY(16)
// column store id[:] instead.
func (id ID) Value() (driver.Value, error) {
	if id.IsZero() {
		return nil, nil
	}
	return id.String(), nil
}

// Scan reads the id from a column that holds its 36-character text or its 16 bytes; NULL is the zero id. On an error the id
// is left as it was.
func (id *ID) Scan(src any) error {
	var b []byte
	switch v := src.(type) {
	case nil:
		*id = ID{}
		return nil
	case string:
		b = []byte(v)
	case []byte:
		b = v
	default:
		return &FieldError{Field: "task_id", Problem: fmt.Sprintf("can't be read from %T", src)}
	}
	if len(b) == len(id) {
		*id = ID(b)
		return nil
	}
	return id.set(ParseID(string(b)))
}

func (id *ID) set(read ID, err error) error {
	if err == nil {
		*id = read
	}
	return err
}
