package repo_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/duetimev1"
)

// openAPI is the file that generates clients and checks calls in other languages.
const openAPI = "proto/openapi.yaml"

// What the server accepts and answers is legal by the OpenAPI file: each message with all of its fields, with each member of each
// oneof. A field that there isn't makes it illegal.
func TestOpenAPIDescribesEachMessage(t *testing.T) {
	t.Parallel()
	schemas := readOpenAPI(t)
	seen := 0
	for _, file := range []protoreflect.FileDescriptor{
		duetimev1.File_duetime_v1_task_proto, duetimev1.File_duetime_v1_recurrence_proto, duetimev1.File_duetime_v1_operation_proto,
		duetimev1.File_duetime_v1_owner_proto,
	} {
		for i := range file.Messages().Len() {
			m := file.Messages().Get(i)
			for choice := range choices(m) {
				seen++
				text, err := protojson.Marshal(filled(m, choice))
				pipelinetest.Must(t, err)
				if err := schemas.check(t, string(m.FullName()), text); err != nil {
					t.Errorf("%s refuses %s: %v", openAPI, text, err)
				}
				text = bytes.Replace(text, []byte("{"), []byte(`{"nosuch":"7",`), 1)
				text = bytes.Replace(text, []byte(",}"), []byte("}"), 1) // a message without fields
				if schemas.check(t, string(m.FullName()), text) == nil {
					t.Errorf("%s has %s accept the field nosuch", openAPI, m.FullName())
				}
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d messages were checked", seen)
	}
}

func TestOpenAPIRefusesWhatTheServerRefuses(t *testing.T) {
	t.Parallel()
	schemas := readOpenAPI(t)
	for message, bodies := range map[string][]string{
		"duetime.v1.ScheduleRequest": {
			`{}`,
			`{"task": {"kind": "mail", "dueIn": "1s"}}`,
			`{"task": {"kind": "mail", "owner": "ann"}}`,
			`{"task": {"kind": "mail", "owner": "ann", "dueIn": "1s", "dueAt": "2026-11-27T10:10:00Z"}}`,
			`{"task": {"kind": "mail", "owner": "ann", "dueIn": "PT1S"}}`,
			`{"task": {"kind": "mail", "ownr": "ann", "dueIn": "1s"}}`,
		},
		"duetime.v1.RescheduleRequest": {`{"taskId": "7"}`, `{"dueIn": "1s"}`},
		"Error":                        {`{}`, `{"code": "broken", "message": "it is"}`, `{"code": "internal", "message": "it is", "details": [{}]}`},
	} {
		for _, body := range bodies {
			if schemas.check(t, message, []byte(body)) == nil {
				t.Errorf("%s accepts %s", openAPI, body)
			}
		}
	}
}

// A call needs no header but the token.
func TestOpenAPIRequiresNoHeader(t *testing.T) {
	t.Parallel()
	var document struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name     string
				Required bool
			}
		}
	}
	text, err := os.ReadFile(openAPI)
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, yaml.Unmarshal(text, &document))
	if len(document.Paths) < 19 {
		t.Errorf("%s has only %d calls", openAPI, len(document.Paths))
	}
	for path, calls := range document.Paths {
		for _, call := range calls {
			for _, p := range call.Parameters {
				if p.Required {
					t.Errorf("%s requires %s of %s", openAPI, p.Name, path)
				}
			}
		}
	}
}

var (
	exampleCall   = regexp.MustCompile(`(?s)/duetime\.v1\.\w+/(\w+) -d '(.+?)'`)
	exampleAnswer = regexp.MustCompile("(?s)```json\n(\\{\"task\":.+?)```")
	exampleError  = regexp.MustCompile("(?s)```json\n(\\{\"code\":.+?)```")
)

// The calls in the pages, and the answer that API.md shows, are legal by the OpenAPI file.
func TestOpenAPIDescribesTheExamplesInDocs(t *testing.T) {
	t.Parallel()
	schemas := readOpenAPI(t)
	pages, err := filepath.Glob("docs/*.md")
	pipelinetest.Must(t, err)
	calls, answers, failures := map[string]int{}, 0, 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		pipelinetest.Must(t, err)
		for _, call := range exampleCall.FindAllSubmatch(text, -1) {
			calls[page]++
			if err := schemas.check(t, "duetime.v1."+string(call[1])+"Request", call[2]); err != nil {
				t.Errorf("%s: %s refuses %s: %v", page, openAPI, call[2], err)
			}
		}
		for _, answer := range exampleAnswer.FindAllSubmatch(text, -1) {
			answers++
			if err := schemas.check(t, "duetime.v1.ScheduleResponse", answer[1]); err != nil {
				t.Errorf("%s: %s refuses %s: %v", page, openAPI, answer[1], err)
			}
		}
		for _, failure := range exampleError.FindAllSubmatch(text, -1) {
			failures++
			if err := schemas.check(t, "Error", failure[1]); err != nil {
				t.Errorf("%s: %s refuses %s: %v", page, openAPI, failure[1], err)
			}
		}
	}
	if calls["docs/API.md"] == 0 || calls["docs/PUSH.md"] == 0 || answers == 0 || failures == 0 {
		t.Errorf("found the calls %v, %d answers and %d errors in the docs", calls, answers, failures)
	}
}

// schemas are those of the OpenAPI file, with formats asserted.
type schemas struct{ compiler *jsonschema.Compiler }

func readOpenAPI(t *testing.T) schemas {
	t.Helper()
	text, err := os.ReadFile(openAPI)
	pipelinetest.Must(t, err)
	var document any
	pipelinetest.Must(t, yaml.Unmarshal(text, &document))
	text, err = json.Marshal(document)
	pipelinetest.Must(t, err)
	document, err = jsonschema.UnmarshalJSON(bytes.NewReader(text))
	pipelinetest.Must(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	pipelinetest.Must(t, c.AddResource("openapi.json", document))
	return schemas{c}
}

func (s schemas) check(t *testing.T, message string, text []byte) error {
	t.Helper()
	schema, err := s.compiler.Compile("openapi.json#/components/schemas/" + message)
	pipelinetest.Must(t, err)
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	pipelinetest.Must(t, err)
	return schema.Validate(body)
}

// choices is how many members the largest oneof has, in a message or in what it holds.
func choices(m protoreflect.MessageDescriptor) int {
	n := 1
	if !strings.HasPrefix(string(m.FullName()), "duetime.v1.") {
		return n
	}
	for i := range m.Oneofs().Len() {
		n = max(n, m.Oneofs().Get(i).Fields().Len())
	}
	for i := range m.Fields().Len() {
		if inner := m.Fields().Get(i).Message(); inner != nil {
			n = max(n, choices(inner))
		}
	}
	return n
}

// filled is a message with all of its fields; of a oneof it has the member of this number.
func filled(m protoreflect.MessageDescriptor, choice int) protoreflect.ProtoMessage {
	switch m.FullName() {
	case "google.protobuf.Timestamp":
		return timestamppb.New(time.Date(2026, 11, 27, 10, 10, 0, 123e6, time.UTC))
	case "google.protobuf.Duration":
		return durationpb.New(-1500 * time.Millisecond)
	case "google.protobuf.Value":
		return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"pets": structpb.NewListValue(
			&structpb.ListValue{Values: []*structpb.Value{structpb.NewNumberValue(7), structpb.NewNullValue(), structpb.NewBoolValue(true)}})}})
	}
	out := dynamicpb.NewMessage(m)
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if o := f.ContainingOneof(); o != nil && f != o.Fields().Get(choice%o.Fields().Len()) {
			continue
		}
		switch {
		case f.IsMap():
			out.Mutable(f).Map().Set(protoreflect.ValueOf("realm").MapKey(), protoreflect.ValueOf("7"))
		case f.IsList():
			out.Mutable(f).List().Append(example(f, choice))
		default:
			out.Set(f, example(f, choice))
		}
	}
	return out
}

func example(f protoreflect.FieldDescriptor, choice int) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return protoreflect.ValueOfMessage(filled(f.Message(), choice).ProtoReflect())
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(f.Enum().Values().Get(1).Number())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("text")
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(7)
	default:
		return protoreflect.ValueOfInt64(7)
	}
}
