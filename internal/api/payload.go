package api

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/duetime/duetime/pkg/task"
)

// payloadIn returns what is encoded as the payload of a new task. A number that would lose digits on its way is refused.
func payloadIn(value *structpb.Value, text string) (any, error) {
	switch {
	case value != nil && text != "":
		return nil, &task.FieldError{Field: "payload_json", Problem: "must not be set beside payload"}
	case text != "":
		return json.RawMessage(text), nil
	}
	if problem := inexact(value); problem != "" {
		return nil, &task.FieldError{Field: "payload", Problem: problem}
	}
	return value.AsInterface(), nil
}

// inexact says why the value can't be what its sender meant; empty if it can.
func inexact(value *structpb.Value) string {
	switch kind := value.GetKind().(type) {
	case *structpb.Value_NumberValue:
		n := kind.NumberValue
		switch {
		case math.IsNaN(n) || math.IsInf(n, 0):
			return "must have no infinite number, and none that is no number"
		case math.Abs(n) > maxExactInteger && n == math.Trunc(n):
			return "has a whole number beyond 2^53, which loses digits here: send it in payload_json"
		}
	case *structpb.Value_ListValue:
		for _, item := range kind.ListValue.GetValues() {
			if problem := inexact(item); problem != "" {
				return problem
			}
		}
	case *structpb.Value_StructValue:
		for _, item := range kind.StructValue.GetFields() {
			if problem := inexact(item); problem != "" {
				return problem
			}
		}
	}
	return ""
}

// payloadOut returns a stored payload as a value, or as text where a value would lose digits, or where it is no JSON: rows of
// other programs may hold anything.
func payloadOut(stored string) (*structpb.Value, string) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(stored)))
	decoder.UseNumber()
	var decoded any
	err := decoder.Decode(&decoded)
	if _, more := decoder.Token(); err == nil && more == io.EOF {
		if value, exact := exactValue(decoded); exact {
			return value, ""
		}
	}
	return nil, strings.ToValidUTF8(stored, "\uFFFD")
}

// exactValue is false if a number has no exact double.
func exactValue(decoded any) (*structpb.Value, bool) {
	switch v := decoded.(type) {
	case nil:
		return structpb.NewNullValue(), true
	case bool:
		return structpb.NewBoolValue(v), true
	case string:
		return structpb.NewStringValue(v), true
	case json.Number:
		n, err := v.Float64()
		return structpb.NewNumberValue(n), err == nil && (math.Abs(n) <= maxExactInteger || n != math.Trunc(n))
	case []any:
		list := &structpb.ListValue{Values: make([]*structpb.Value, len(v))}
		for i, item := range v {
			value, exact := exactValue(item)
			if !exact {
				return nil, false
			}
			list.Values[i] = value
		}
		return structpb.NewListValue(list), true
	case map[string]any:
		object := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(v))}
		for name, item := range v {
			value, exact := exactValue(item)
			if !exact {
				return nil, false
			}
			object.Fields[name] = value
		}
		return structpb.NewStructValue(object), true
	}
	return nil, false
}
