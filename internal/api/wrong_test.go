package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
)

// wrongBody is a body in JSON that is no message.
type wrongBody struct {
	text  string
	field string // that the error names
	says  string // what the error says of it, among other things
	meant string // that the error asks for, in JSON; empty: it asks for none
	right string // the body with what was meant
}

// wrongBodies breaks each field of a message, and of those in it, in each way that its type can be broken. put makes a body of an
// object in the place of the message.
func wrongBodies(m protoreflect.MessageDescriptor, within string, put func(object string) string) (all []wrongBody) {
	add := func(field, says, meant string, body func(value string) string, values ...string) {
		for _, v := range values {
			b := wrongBody{text: body(v), field: strings.TrimPrefix(within+field, "."), says: says, meant: meant}
			if meant != "" {
				b.right = body(meant)
			}
			all = append(all, b)
		}
	}
	add(".nosuch", "is no field of "+string(m.Name()), "", put, `{"nosuch": 7}`)
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		field, of := "."+string(f.Name()), func(value string) string { return put(fmt.Sprintf("{%q: %s}", f.JSONName(), value)) }
		add(field, "must be given once", "", put, fmt.Sprintf("{%q: null, %q: null}", f.JSONName(), f.Name()))
		single := f
		switch {
		case f.IsList():
			add(field, "must be a list, and is ", "", of, `7`, `{}`, `"text"`)
			whole := of
			of, field = func(value string) string { return whole("[" + value + "]") }, field+"[0]"
			if f.Message() != nil {
				add(field, "must be an object, and is null", "", of, `null`)
			}
		case f.IsMap():
			add(field, "must be an object, and is ", "", of, `7`, `[]`)
			add(field, `"realm" must be given once`, "", of, `{"realm": "7", "realm": "8"}`)
			whole := of
			of = func(value string) string { return whole(`{"realm": ` + value + "}") }
			single = f.MapValue()
		}
		if choice := f.ContainingOneof(); choice != nil && choice.Fields().Get(0) == f {
			first, second := choice.Fields().Get(0), choice.Fields().Get(1)
			both := fmt.Sprintf("{%q: %s, %q: %s}", second.JSONName(), oneRight(second), first.JSONName(), oneRight(first))
			add("."+string(choice.Name()), fmt.Sprintf("must be set once: %s or %s", first.Name(), second.Name()), "", put, both)
		}
		for _, way := range waysToBreak(single) {
			add(field, way.says, way.meant, of, way.values...)
		}
		if inner := f.Message(); inner != nil && !f.IsMap() && strings.HasPrefix(string(inner.FullName()), "duetime.") {
			all = append(all, wrongBodies(inner, within+field, of)...)
		}
	}
	return all
}

type breaking struct {
	says, meant string
	values      []string
}

// waysToBreak are by the type of a field's single value.
func waysToBreak(f protoreflect.FieldDescriptor) []breaking {
	switch kind := f.Kind(); kind {
	case protoreflect.StringKind:
		return []breaking{
			{"must be a string of valid Unicode", "", []string{`[]`, `{}`, `"\ud800"`, "\"\xff\""}},
			{"must be a string of valid Unicode, and is 42", `"42"`, []string{`42`}},
			{"must be a string", `"true"`, []string{`true`}},
		}
	case protoreflect.BoolKind:
		return []breaking{{"must be true or false, and is ", "", []string{`7`, `"yes"`, `[]`}}, {"", "true", []string{`"True"`}}}
	case protoreflect.Int32Kind:
		return []breaking{{"must be a whole number of 32 bits, and is ", "", []string{`"many"`, `1.5`, `2147483648`, `true`, `{}`}}}
	case protoreflect.Int64Kind:
		return []breaking{{"must be a whole number of 64 bits, and is ", "", []string{`"many"`, `"1.5"`, `9223372036854775808`, `true`, `[]`}}}
	case protoreflect.EnumKind:
		values := f.Enum().Values()
		first, last := string(values.Get(1).Name()), string(values.Get(values.Len()-1).Name())
		prefix := strings.TrimSuffix(string(values.Get(0).Name()), "UNSPECIFIED")
		short := strings.ToLower(strings.TrimPrefix(last, prefix))
		return []breaking{
			{"must be one of " + first + ", ", "", []string{`"no such name"`, `true`, `1.5`, `[]`}},
			{last + ", and is ", `"` + last + `"`, []string{`"` + short + `"`, `"` + strings.ToLower(last) + `"`, `"` + last + `S"`}},
		}
	case protoreflect.MessageKind:
		switch f.Message().FullName() {
		case "google.protobuf.Duration":
			const form = `must be seconds with an s, such as "600s" or "0.5s", and is `
			return []breaking{
				{form, "", []string{`"soon"`, `{}`, `true`, `"ten minutes"`}},
				{form, `"600s"`, []string{`"10m"`, `"10M"`, `"PT10M"`, `600`, `"600"`, `"0h10m0s"`}},
			}
		case "google.protobuf.Timestamp":
			const form = `must be a moment with its zone, such as "2026-11-27T10:10:00Z" or "2026-11-27T18:10:00+08:00", and is `
			return []breaking{
				{form, "", []string{`"tomorrow"`, `{}`, `false`, `"2026-13-01T00:00:00Z"`}},
				{form, `"2026-11-27T10:10:00Z"`, []string{
					`"2026-11-27T10:10:00"`, `"2026-11-27 10:10:00"`, `"2026-11-27T10:10"`, `"2026-11-27 18:10:00+08:00"`,
					`"2026-11-27T18:10:00+0800"`, `"Fri, 27 Nov 2026 10:10:00 GMT"`, `1795774200`, `1795774200000`, `"2026-11-27t10:10:00z"`,
				}},
				{form, `"2026-11-27T00:00:00Z"`, []string{`"2026-11-27"`}},
			}
		case "google.protobuf.Value":
			return []breaking{{"can't be read: ", "", []string{`1e400`, `{"a": 1, "a": 2}`, `["\ud800"]`}}}
		}
		return []breaking{{"must be an object, and is ", "", []string{`7`, `"text"`, `[]`}}}
	default:
		return []breaking{{"no test breaks the kind " + kind.String(), "", []string{"7"}}}
	}
}

// oneRight is a value of a field that is a moment or a duration.
func oneRight(f protoreflect.FieldDescriptor) string {
	if f.Message().FullName() == "google.protobuf.Duration" {
		return `"1s"`
	}
	return `"2027-01-01T00:00:00Z"`
}

// rawJSON sends a text as the message in JSON.
type rawJSON struct{}

func (rawJSON) Name() string                          { return "json" }
func (rawJSON) Marshal(message any) ([]byte, error)   { return []byte(*message.(*string)), nil }
func (rawJSON) Unmarshal(text []byte, into any) error { *into.(*string) = string(text); return nil }

// sendRaw calls a method with a body, and returns its error.
func sendRaw(ctx context.Context, h *http.Client, url string, streams bool, body string, options ...connect.ClientOption) error {
	c := connect.NewClient[string, string](h, url, append(options, connect.WithCodec(rawJSON{}))...)
	if !streams {
		_, err := c.CallUnary(ctx, connect.NewRequest(&body))
		return err
	}
	stream, err := c.CallServerStream(ctx, connect.NewRequest(&body))
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
	}
	return stream.Err()
}

// eachMethod calls fn with each call of the API.
func eachMethod(t *testing.T, fn func(path string, m protoreflect.MethodDescriptor)) {
	t.Helper()
	for _, path := range procedures() {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(path[1:], "/", ".")))
		pipelinetest.Must(t, err)
		fn(path, found.(protoreflect.MethodDescriptor))
	}
}

// Whatever is wrong with a body in JSON, of any call in any protocol: the error names the field and the form that it must have, and
// asks for the nearest value of that form, which is one.
func TestWrongBodiesAreExplained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before, seen := w.state(t), 0
	for name, options := range map[string][]connect.ClientOption{
		"connect": nil, "grpc": {connect.WithGRPC()}, "grpc-web": {connect.WithGRPCWeb()},
	} {
		h := overHTTP2(t)
		eachMethod(t, func(path string, m protoreflect.MethodDescriptor) {
			for _, body := range wrongBodies(m.Input(), "", func(object string) string { return object }) {
				seen++
				err := sendRaw(t.Context(), h, w.url+path, m.IsStreamingServer(), body.text, options...)
				checkExplained(t, name+" "+path+" "+body.text, err, body)
				if body.right != "" {
					if err := protojson.Unmarshal([]byte(body.right), dynamicpb.NewMessage(m.Input())); err != nil {
						t.Errorf("%s: what is asked for is wrong itself: %s", body.text, body.right)
					}
				}
			}
		})
	}
	if seen < 3000 {
		t.Errorf("only %d bodies were tried", seen)
	}
	if after := w.state(t); after != before {
		t.Errorf("refused calls changed %v to %v", before, after)
	}
}

func checkExplained(t *testing.T, what string, err error, body wrongBody) {
	t.Helper()
	violations := detailOf[*errdetails.BadRequest](t, err).GetFieldViolations()
	if err == nil || connect.CodeOf(err) != connect.CodeInvalidArgument || len(violations) != 1 || violations[0].GetField() != body.field {
		t.Errorf("%s: got %v with the violations %v, want one of %q", what, err, violations, body.field)
		return
	}
	says := violations[0].GetDescription()
	asks := "did you mean " + body.meant + "?"
	if !strings.Contains(says, body.says) || body.meant == "" && strings.Contains(says, "did you mean") ||
		body.meant != "" && !strings.HasSuffix(says, asks) {
		t.Errorf("%s: the error says %q, want %q and %q", what, says, body.says, body.meant)
	}
	if text := err.Error(); text != "invalid_argument: "+body.field+" "+says || strings.Contains(text, "proto:") {
		t.Errorf("%s: the error is %q, and its description %q", what, text, says)
	}
}

// A name that is nearly one of ours is asked for; a body that is no JSON is told by its place.
func TestBodiesThatAreNoMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const schedule = "/duetime.v1.TaskService/Schedule"
	long := strings.Repeat("é", 10_000)
	for body, want := range map[string]struct{ field, says string }{
		`{"task": {"ownr": "ann"}}`:           {"task.ownr", "is no field of NewTask: did you mean owner?"},
		`{"task": {"due-in": "1s"}}`:          {"task.due-in", "is no field of NewTask: did you mean dueIn?"},
		`{"task": {"when": "1s"}}`:            {"task.when", "is no field of NewTask, which has kind, owner, payload,"},
		`{"task": {"` + long + `": 1}}`:       {"task." + strings.Repeat("é", 60) + "…", "is no field of NewTask"},
		`{"task": {"dueIn": "` + long + `"}}`: {"task.due_in", "…"},
		"":                                    {"", "the body is empty: an empty message is {}"},
		" \n":                                 {"", "the body is empty: an empty message is {}"},
		"{\"task\":\n {\"owner\": 'ann'}}":    {"", "the body is no JSON: line 2, column 12: invalid character '\\''"},
		`{"task": {`:                          {"", "the body is no JSON: line 1, column 10: unexpected end of JSON input"},
		`{} {}`:                               {"", "the body is no JSON: line 1, column 4: invalid character"},
		`[]`:                                  {"", "the body must be an object, and is []"},
		`{"task": ` + strings.Repeat("[", 20_000): {"", "the body is no JSON: "},
	} {
		err := sendRaw(t.Context(), overHTTP2(t), w.url+schedule, false, body)
		violations := detailOf[*errdetails.BadRequest](t, err).GetFieldViolations()
		if connect.CodeOf(err) != connect.CodeInvalidArgument || len(violations) != 1 || violations[0].GetField() != want.field ||
			!strings.Contains(violations[0].GetDescription(), want.says) || len(err.Error()) > 1000 {
			t.Errorf("%.80s: got %.1100v with %.200v, want %+v", body, err, violations, want)
		}
	}
	if n := worldtest.Sum(t, w.registry, "duetime_api_requests_total", "code", "invalid_argument", "method", "Schedule"); n < 10 {
		t.Errorf("%v calls were counted as invalid", n)
	}
}
