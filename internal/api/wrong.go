package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/duetime/duetime/internal/near"
	"github.com/duetime/duetime/pkg/task"
)

// whatIsWrong finds the first part of a JSON text by which it is no message of this type. The decoder's own error names a line and
// no field. Each part is given to the decoder by itself, so that nothing is called wrong which it takes.
func whatIsWrong(text []byte, m protoreflect.MessageDescriptor, err error) *task.FieldError {
	if problem := notJSON(text); problem != "" {
		return &task.FieldError{Problem: problem}
	}
	if wrong := wrongMessage("", bytes.TrimSpace(text), m); wrong != nil {
		if wrong.Field == "" {
			wrong.Problem = "the body " + wrong.Problem
		}
		return wrong
	}
	return &task.FieldError{Problem: "the body can't be read: " + reasonIn(err)}
}

// notJSON says where a text stops being JSON; empty if it is JSON.
func notJSON(text []byte) string {
	if len(bytes.TrimSpace(text)) == 0 {
		return "the body is empty: an empty message is {}"
	}
	err := json.Unmarshal(text, new(json.RawMessage))
	if err == nil {
		return ""
	}
	syntax, is := errors.AsType[*json.SyntaxError](err)
	if !is {
		return "the body is no JSON: " + err.Error()
	}
	before := text[:min(max(int(syntax.Offset)-1, 0), len(text))]
	line, column := 1+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n')
	return fmt.Sprintf("the body is no JSON: line %d, column %d: %v", line, column, syntax)
}

// position is what the decoder's errors begin with.
var position = regexp.MustCompile(`^proto:[\s\x{a0}]*(syntax error )?(\(line \d+:\d+\): )?`)

// reasonIn is a decoder's error without the place in the text, which is only a part of what the caller has sent.
func reasonIn(err error) string { return position.ReplaceAllString(err.Error(), "") }

// wrongMessage looks at the fields of a message in the order of the text. It returns nil if nothing is wrong.
func wrongMessage(path string, text []byte, m protoreflect.MessageDescriptor) *task.FieldError {
	if text[0] != '{' {
		return &task.FieldError{Field: path, Problem: "must be an object" + andIs(text)}
	}
	seen := map[protoreflect.FullName]bool{}
	for name, value := range members(text) {
		f := fieldNamed(m, name)
		if f == nil {
			return &task.FieldError{Field: within(path, cut(name)), Problem: noField(m, name)}
		}
		where := within(path, string(f.Name()))
		if seen[f.FullName()] {
			return &task.FieldError{Field: where, Problem: "must be given once"}
		}
		seen[f.FullName()] = true
		if choice := f.ContainingOneof(); choice != nil && !isNull(value) {
			if seen[choice.FullName()] {
				return &task.FieldError{Field: within(path, string(choice.Name())), Problem: "must be set once: " + membersOf(choice)}
			}
			seen[choice.FullName()] = true
		}
		if wrong := wrongField(where, value, f); wrong != nil {
			return wrong
		}
	}
	return nil
}

// wrongField looks at the value of a field.
func wrongField(path string, value []byte, f protoreflect.FieldDescriptor) *task.FieldError {
	err := decoded(f, value)
	switch {
	case err == nil:
		return nil
	case f.IsList():
		return wrongList(path, value, f)
	case f.IsMap():
		return wrongMap(path, value, f)
	}
	return wrongValue(path, value, f, err)
}

func wrongValue(path string, value []byte, f protoreflect.FieldDescriptor, err error) *task.FieldError {
	if m := f.Message(); m != nil && !isKnown(m) {
		return wrongMessage(path, value, m)
	}
	return &task.FieldError{Field: path, Problem: formOf(f).problem(value, err)}
}

func wrongList(path string, value []byte, f protoreflect.FieldDescriptor) *task.FieldError {
	if value[0] != '[' {
		return &task.FieldError{Field: path, Problem: "must be a list" + andIs(value)}
	}
	var items []json.RawMessage
	_ = json.Unmarshal(value, &items) // it is a part of what was read before
	for i, item := range items {
		if err := decoded(f, fmt.Appendf(nil, "[%s]", item)); err != nil {
			return wrongValue(fmt.Sprintf("%s[%d]", path, i), item, f, err)
		}
	}
	return nil
}

// wrongMap names a map's entry in the problem, as errors of labels do.
func wrongMap(path string, value []byte, f protoreflect.FieldDescriptor) *task.FieldError {
	if value[0] != '{' {
		return &task.FieldError{Field: path, Problem: "must be an object" + andIs(value)}
	}
	seen := map[string]bool{}
	for name, item := range members(value) {
		if seen[name] {
			return &task.FieldError{Field: path, Problem: fmt.Sprintf("%q must be given once", cut(name))}
		}
		seen[name] = true
		if err := decoded(f, fmt.Appendf(nil, `{"name":%s}`, item)); err != nil {
			wrong := wrongValue(path, item, f.MapValue(), err)
			wrong.Problem = fmt.Sprintf("%q %s", cut(name), wrong.Problem)
			return wrong
		}
	}
	return nil
}

// decoded has the decoder read a message that has this field alone.
func decoded(f protoreflect.FieldDescriptor, value []byte) error {
	return protojson.Unmarshal(fmt.Appendf(nil, "{%q:%s}", f.JSONName(), value), dynamicpb.NewMessage(f.ContainingMessage()))
}

// members are the names and values of an object, in the order of the text.
func members(object []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		decoder := json.NewDecoder(bytes.NewReader(object))
		_, _ = decoder.Token() // the opening brace; the text was read before
		for decoder.More() {
			token, err := decoder.Token()
			name, is := token.(string)
			var value json.RawMessage
			if err != nil || !is || decoder.Decode(&value) != nil || !yield(name, value) {
				return
			}
		}
	}
}

func fieldNamed(m protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if f := m.Fields().ByJSONName(name); f != nil {
		return f
	}
	return m.Fields().ByTextName(name)
}

// noField says which fields there are in place of a name that there isn't.
func noField(m protoreflect.MessageDescriptor, name string) string {
	var names []string
	for i := range m.Fields().Len() {
		names = append(names, m.Fields().Get(i).JSONName())
	}
	if meant := near.Of(name, names); meant != "" {
		return fmt.Sprintf("is no field of %s: did you mean %s?", m.Name(), meant)
	}
	return fmt.Sprintf("is no field of %s, which has %s", m.Name(), strings.Join(names, ", "))
}

// membersOf lists the fields of which one is set.
func membersOf(choice protoreflect.OneofDescriptor) string {
	var names []string
	for i := range choice.Fields().Len() {
		names = append(names, string(choice.Fields().Get(i).Name()))
	}
	return strings.Join(names, " or ")
}

func within(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

func isNull(value []byte) bool { return string(value) == "null" }

// maxShown is how many characters of what a caller has sent stand in an error.
const maxShown = 60

func andIs(value []byte) string { return ", and is " + cut(string(value)) }

// cut shortens what a caller has sent. A message can't hold text that is no UTF-8.
func cut(text string) string {
	runes := []rune(strings.ToValidUTF8(text, "\uFFFD"))
	if len(runes) <= maxShown {
		return string(runes)
	}
	return string(runes[:maxShown]) + "…"
}
