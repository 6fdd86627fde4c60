package api

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// strictJSON is the JSON form of messages. Unlike connect's own, it refuses a field that there isn't: a caller who has misspelt
// a name is told, instead of scheduling a task without it.
type strictJSON struct{ name string }

// Name is the codec's name in a content type.
func (c strictJSON) Name() string { return c.name }

// Marshal encodes an answer.
func (strictJSON) Marshal(message any) ([]byte, error) {
	m, err := protoMessage(message)
	if err != nil {
		return nil, err
	}
	return protojson.Marshal(m)
}

// Unmarshal decodes a request.
func (strictJSON) Unmarshal(text []byte, message any) error {
	m, err := protoMessage(message)
	if err != nil {
		return err
	}
	if len(text) == 0 {
		return errors.New("the body is empty: an empty message is {}")
	}
	return protojson.Unmarshal(text, m)
}

func protoMessage(message any) (proto.Message, error) {
	m, is := message.(proto.Message)
	if !is {
		return nil, fmt.Errorf("%T is no message", message)
	}
	return m, nil
}
