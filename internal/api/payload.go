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

// payloadOut returns a stored payload as a value, or as text where a value would lose digits or have too many parts, or where it
// is no JSON: rows of other programs may hold anything. A message takes ten bytes for a number of one, and much more in memory.
func payloadOut(stored string) (*structpb.Value, string) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(stored)))
	decoder.UseNumber()
	var decoded any
	err := decoder.Decode(&decoded)
	if _, more := decoder.Token(); err == nil && more == io.EOF {
		parts := maxPayloadValues
		if value := valueOf(decoded, &parts); value != nil {
			return value, ""
		}
	}
	return nil, strings.ToValidUTF8(stored, "\uFFFD")
}

// valueOf returns nil if a number has no exact double, or if there are more values than may be left.
func valueOf(decoded any, left *int) *structpb.Value {
	if *left--; *left < 0 {
		return nil
	}
	switch v := decoded.(type) {
	case nil:
		return structpb.NewNullValue()
	case bool:
		return structpb.NewBoolValue(v)
	case string:
		return structpb.NewStringValue(v)
	case json.Number:
		if n, err := v.Float64(); err == nil && (math.Abs(n) <= maxExactInteger || n != math.Trunc(n)) {
			return structpb.NewNumberValue(n)
		}
	case []any:
		return listOfValues(v, left)
	case map[string]any:
		return objectOf(v, left)
	}
	return nil
}

func listOfValues(items []any, left *int) *structpb.Value {
	list := new(structpb.ListValue)
	for _, item := range items {
		value := valueOf(item, left)
		if value == nil {
			return nil
		}
		list.Values = append(list.Values, value)
	}
	return structpb.NewListValue(list)
}

func objectOf(fields map[string]any, left *int) *structpb.Value {
	object := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for name, item := range fields {
		value := valueOf(item, left)
		if value == nil {
			return nil
		}
		object.Fields[name] = value
	}
	return structpb.NewStructValue(object)
}
