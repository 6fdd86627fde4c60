package imports

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// message is what an import needs of asynq's TaskMessage, whose type is internal to asynq's module.
type message struct {
	kind    string
	payload []byte
	id      string
}

// Numbers of the fields of TaskMessage (internal/proto/asynq.proto, v0.26.0). The others are bounds of asynq's own: retries,
// timeout, deadline, retention, headers, the key of its uniqueness.
const (
	fieldType    = 1
	fieldPayload = 2
	fieldID      = 3
)

// decodeMessage reads the fields and passes over all others.
func decodeMessage(b []byte) (m message, err error) {
	for len(b) > 0 {
		number, wire, size := protowire.ConsumeTag(b)
		if size < 0 {
			return m, protowire.ParseError(size)
		}
		b = b[size:]
		if wire != protowire.BytesType || number > fieldID {
			if size = protowire.ConsumeFieldValue(number, wire, b); size < 0 {
				return m, protowire.ParseError(size)
			}
			b = b[size:]
			continue
		}
		value, size := protowire.ConsumeBytes(b)
		if size < 0 {
			return m, protowire.ParseError(size)
		}
		b = b[size:]
		switch number {
		case fieldType:
			m.kind = string(value)
		case fieldPayload:
			m.payload = value
		case fieldID:
			m.id = string(value)
		}
	}
	return m, nil
}
