package api

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strconv"
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
		payload := json.RawMessage(text)
		if err := json.Unmarshal(payload, new(json.RawMessage)); err != nil {
			return nil, &task.FieldError{Field: "payload_json", Problem: "must be JSON: " + err.Error()}
		}
		return payload, nil
	}
	if problem := inexact(value); problem != "" {
		return nil, &task.FieldError{Field: "payload", Problem: problem}
	}
	return value.AsInterface(), nil
}

// inexact says why the value can't be what its sender meant; empty if it can. An absent payload is null; a value that is there and
// has no kind is what clients send of a plain object in place of a Value: its fields are lost before they are sent.
func inexact(value *structpb.Value) string {
	if value != nil && value.GetKind() == nil {
		return "has a value that is not set: make it a google.protobuf.Value, in TypeScript by fromJson(ValueSchema, …), or send payload_json"
	}
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

// payloadOut returns a stored payload as a value, or as text where a value would lose digits, be large or be deep, or where it
// is no JSON: rows of other programs may hold anything. The value of a small number takes ten bytes as a message, and much more
// in memory. Readers in other languages refuse a whole page because of one deep message.
func payloadOut(stored string) (*structpb.Value, string) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(stored)))
	decoder.UseNumber()
	var decoded any
	err := decoder.Decode(&decoded)
	if _, more := decoder.Token(); err == nil && more == io.EOF {
		limits := &room{maxPayloadValues, maxPayloadDepth}
		if value := limits.valueOf(decoded); value != nil {
			return value, ""
		}
	}
	return nil, strings.ToValidUTF8(stored, "\uFFFD")
}

// isExact reports whether a reader of the double sees the number that the text says.
func isExact(text string, n float64) bool {
	if math.Abs(n) > maxExactInteger && n == math.Trunc(n) {
		return false
	}
	return decimalOf(text) == decimalOf(strconv.FormatFloat(n, 'g', -1, 64))
}

// decimal is a number without its sign: digits that neither begin nor end with 0, and the power of ten of the last one.
type decimal struct {
	digits string
	power  int
}

func decimalOf(number string) decimal {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	significant := strings.TrimRight(digits, "0")
	if significant == "" {
		return decimal{}
	}
	power, _ := strconv.Atoi(exponent) // one beyond all bounds is cut, and no double has such a one
	return decimal{significant, power - len(fraction) + len(digits) - len(significant)}
}

// room is how much more a value may hold.
type room struct{ values, depth int }

// valueOf returns nil if there is no room for the value, or if a number has no exact double.
func (r *room) valueOf(decoded any) *structpb.Value {
	if r.values--; r.values < 0 {
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
		if n, err := v.Float64(); err == nil && isExact(v.String(), n) {
			return structpb.NewNumberValue(n)
		}
	case []any:
		return r.listOf(v)
	case map[string]any:
		return r.objectOf(v)
	}
	return nil
}

func (r *room) listOf(items []any) *structpb.Value {
	if r.depth--; r.depth < 0 {
		return nil
	}
	defer func() { r.depth++ }()
	list := new(structpb.ListValue)
	for _, item := range items {
		value := r.valueOf(item)
		if value == nil {
			return nil
		}
		list.Values = append(list.Values, value)
	}
	return structpb.NewListValue(list)
}

func (r *room) objectOf(fields map[string]any) *structpb.Value {
	if r.depth--; r.depth < 0 {
		return nil
	}
	defer func() { r.depth++ }()
	object := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for name, item := range fields {
		value := r.valueOf(item)
		if value == nil {
			return nil
		}
		object.Fields[name] = value
	}
	return structpb.NewStructValue(object)
}
