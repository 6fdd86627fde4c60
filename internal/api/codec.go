package api

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/duetime/duetime/pkg/task"
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

// Unmarshal decodes a request. What is wrong with one that can't be decoded is in the message, for refusal: the text of an error
// would reach the caller without details.
func (strictJSON) Unmarshal(text []byte, message any) error {
	m, err := protoMessage(message)
	if err != nil {
		return err
	}
	if err := protojson.Unmarshal(text, m); err != nil {
		return refuseMessage(m, whatIsWrong(text, m.ProtoReflect().Descriptor(), err))
	}
	return nil
}

func protoMessage(message any) (proto.Message, error) {
	m, is := message.(proto.Message)
	if !is {
		return nil, fmt.Errorf("%T is no message", message)
	}
	return m, nil
}

// refusalNumber is the unknown field in which a message carries what is wrong with it. No message has a field of the highest
// number.
const refusalNumber = protowire.MaxValidNumber

// refuseMessage empties the message, and leaves in it what is wrong.
func refuseMessage(m proto.Message, wrong *task.FieldError) error {
	text, err := proto.Marshal(&errdetails.BadRequest_FieldViolation{Field: wrong.Field, Description: wrong.Problem})
	if err != nil {
		return err
	}
	proto.Reset(m)
	tag := protowire.AppendTag(nil, refusalNumber, protowire.BytesType)
	m.ProtoReflect().SetUnknown(protowire.AppendBytes(tag, text))
	return nil
}

// refusal returns what is wrong with a message that could not be decoded; nil for any other. A caller that sends the field itself
// refuses its own message.
func refusal(message any) error {
	m, is := message.(proto.Message)
	if !is {
		return nil
	}
	unknown := m.ProtoReflect().GetUnknown()
	number, _, n := protowire.ConsumeTag(unknown)
	if n < 0 || number != refusalNumber {
		return nil
	}
	text, _ := protowire.ConsumeBytes(unknown[n:])
	wrong := new(errdetails.BadRequest_FieldViolation)
	if err := proto.Unmarshal(text, wrong); err != nil {
		return connect.NewError(connect.CodeInvalidArgument, errors.New("the message can't be read"))
	}
	return &task.FieldError{Field: wrong.GetField(), Problem: wrong.GetDescription()}
}

// refusing refuses the messages of a stream that could not be decoded.
type refusing struct{ connect.StreamingHandlerConn }

// Receive receives a message.
func (r refusing) Receive(message any) error {
	if err := r.StreamingHandlerConn.Receive(message); err != nil {
		return err
	}
	return refusal(message)
}
