package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/recur"
	protofiles "github.com/duetime/duetime/proto"
)

// apiPage is the page whose lines are typed here.
const apiPage = "../../docs/API.md"

var (
	curlSection = regexp.MustCompile(`(?s)## Each call by curl\n(.+?)\n## `)
	shellBlock  = regexp.MustCompile("(?s)```sh\n(.+?)```")
	curlLine    = regexp.MustCompile(`(?ms)^(?:curl|printf).+?(?:^|\s)http://127\.0\.0\.1:8091(/duetime\.v1\.\w+/\w+) (?:-d '(.*?)'|--data-binary)[^\n]*$`)
)

// typedCall is a command of the page.
type typedCall struct{ path, body, command string }

// typedCalls are the commands of the page's section of calls, in their order.
func typedCalls(t *testing.T) (calls []typedCall) {
	t.Helper()
	text, err := os.ReadFile(apiPage)
	pipelinetest.Must(t, err)
	section := curlSection.FindSubmatch(text)
	if section == nil {
		t.Fatalf("%s has no section of calls by curl", apiPage)
	}
	left := ""
	for _, block := range shellBlock.FindAllSubmatch(section[1], -1) {
		for _, m := range curlLine.FindAllSubmatch(block[1], -1) {
			calls = append(calls, typedCall{path: string(m[1]), body: string(m[2]), command: string(m[0])})
		}
		left += curlLine.ReplaceAllString(string(block[1]), "")
	}
	if strings.TrimSpace(left) != "" {
		t.Errorf("%s has commands that are not understood: %s", apiPage, left)
	}
	return calls
}

// openAPI is what these tests read of the OpenAPI file.
type openAPI struct {
	Paths map[string]struct {
		Post struct {
			RequestBody struct {
				Content map[string]struct {
					Schema struct {
						Ref string `yaml:"$ref"`
					}
					Example map[string]any
				}
			} `yaml:"requestBody"`
		}
	}
	Components struct {
		Schemas map[string]struct {
			Required   []string
			Properties map[string]struct {
				Ref   string `yaml:"$ref"`
				Items struct {
					Ref string `yaml:"$ref"`
				}
			}
		}
	}
}

func readOpenAPI(t *testing.T) (file openAPI) {
	t.Helper()
	pipelinetest.Must(t, yaml.Unmarshal([]byte(protofiles.OpenAPI), &file))
	return file
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	pipelinetest.Must(t, err)
	return string(text)
}

// The page has each call by curl, with the body that is the call's example in the OpenAPI file.
func TestExamplesAreThoseOfThePage(t *testing.T) {
	t.Parallel()
	typed, file := map[string]any{}, readOpenAPI(t)
	for _, c := range typedCalls(t) {
		var body map[string]any
		if c.body != "" {
			pipelinetest.Must(t, json.Unmarshal([]byte(c.body), &body))
		}
		typed[c.path] = body
	}
	eachMethod(t, func(at string, m protoreflect.MethodDescriptor) {
		body, shown := typed[at]
		if !shown {
			t.Errorf("%s has no curl of %s: write one, with the body that proto/tools/examples.yaml has", apiPage, at)
			return
		}
		if m.IsStreamingServer() {
			return
		}
		var example any
		pipelinetest.Must(t, json.Unmarshal([]byte(jsonOf(t, file.Paths[at].Post.RequestBody.Content["application/json"].Example)), &example))
		if d := cmp.Diff(example, body); d != "" {
			t.Errorf("%s: the example of proto/tools/examples.yaml and the body in %s differ (-example +page):\n%s", at, apiPage, d)
		}
	})
}

// The page's commands do what they should when somebody types them, one after the other.
func TestCurlOfThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	calls := typedCalls(t)
	for _, c := range calls {
		if path.Base(c.path) == "Retry" {
			w.kill(t, w.only(t, "order.expire"))
		}
		command := strings.ReplaceAll(c.command, "http://127.0.0.1:8091", w.url)
		command = strings.Replace(command, "curl ", "curl --silent --show-error --fail-with-body ", 1)
		out, err := exec.CommandContext(t.Context(), "sh", "-euc", command).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", command, err, out)
			continue
		}
		wantAnswer(t, c.path, out)
	}
	if len(calls) != len(procedures()) {
		t.Errorf("%d calls were made, want one of each of %d", len(calls), len(procedures()))
	}
}

// only is the id of the only task of a kind.
func (w *world) only(t *testing.T, kind string) (id string) {
	t.Helper()
	pipelinetest.Must(t, w.db().GetContext(t.Context(), &id, "SELECT LOWER(HEX(id)) FROM duetime_tasks WHERE kind = ?", kind))
	return id
}

// wantAnswer wants a message of the call's answer; of a stream it wants one, and the end without an error.
func wantAnswer(t *testing.T, at string, out []byte) {
	t.Helper()
	eachMethod(t, func(known string, m protoreflect.MethodDescriptor) {
		if known != at {
			return
		}
		if m.IsStreamingServer() {
			_, end, found := bytes.Cut(out, []byte("}\x02"))
			if !found || !bytes.Contains(out, []byte("STATE_CANCELLED")) || bytes.Contains(end, []byte("error")) {
				t.Errorf("%s: %q", at, out)
			}
			return
		}
		if err := protojson.Unmarshal(out, dynamicpb.NewMessage(m.Output())); err != nil {
			t.Errorf("%s: %v: %s", at, err, out)
		}
	})
}

// What the OpenAPI file requires is what the server requires: an example without a field that is required is refused, and the error
// names it; without another field, no error says that it must be there.
func TestRequiredIsWhatIsRequired(t *testing.T) {
	t.Parallel()
	w, file := newWorld(t), readOpenAPI(t)
	required, optional, h := 0, 0, overHTTP2(t)
	for _, at := range slices.Sorted(maps.Keys(file.Paths)) {
		content, plain := file.Paths[at].Post.RequestBody.Content["application/json"]
		if !plain {
			continue
		}
		file.eachWithout(content.Schema.Ref, content.Example, "", func(field string, isRequired bool) {
			err := sendRaw(t.Context(), h, w.url+at, false, jsonOf(t, content.Example))
			violations := detailOf[*errdetails.BadRequest](t, err).GetFieldViolations()
			named := len(violations) == 1 && (violations[0].GetField() == field || strings.HasPrefix(violations[0].GetField(), field+"."))
			switch {
			case isRequired && (!named || connect.CodeOf(err) != connect.CodeInvalidArgument):
				t.Errorf("%s without %s, which is required: %v", at, field, err)
			case !isRequired && named:
				t.Errorf("%s without %s, which is not required: %v", at, field, err)
			case isRequired:
				required++
			default:
				optional++
			}
		})
	}
	if required < 30 || optional < 10 {
		t.Errorf("%d required fields and %d others were left out", required, optional)
	}
}

// ofTheVerb is a field that one verb requires and the others refuse: the file can't say that.
const ofTheVerb = "operation.by"

// eachWithout calls fn while a field of the object, or of one in it, is left out. fn gets the field's path as errors have it.
func (f openAPI) eachWithout(ref string, object map[string]any, within string, fn func(field string, isRequired bool)) {
	schema := f.Components.Schemas[path.Base(ref)]
	for _, name := range slices.Sorted(maps.Keys(object)) {
		value, at := object[name], within+snake(name)
		if at != ofTheVerb {
			delete(object, name)
			fn(at, slices.Contains(schema.Required, name))
			object[name] = value
		}
		switch value := value.(type) {
		case map[string]any:
			f.eachWithout(schema.Properties[name].Ref, value, at+".", fn)
		case []any:
			for i, item := range value {
				if inner, is := item.(map[string]any); is {
					f.eachWithout(schema.Properties[name].Items.Ref, inner, fmt.Sprintf("%s[%d].", at, i), fn)
				}
			}
		}
	}
}

var capital = regexp.MustCompile("[A-Z]")

// snake is the name of a field in proto/duetime/v1.
func snake(name string) string {
	return capital.ReplaceAllStringFunc(name, func(c string) string { return "_" + strings.ToLower(c) })
}

var (
	timetables = regexp.MustCompile(`(?s)## Timetables\n(.+?)\n## `)
	timetable  = regexp.MustCompile("`((?:every|cron) [^`]+)`")
)

// The page shows timetables that there are.
func TestTimetablesOfThePage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(apiPage)
	pipelinetest.Must(t, err)
	shown := timetable.FindAllSubmatch(timetables.Find(text), -1)
	for _, m := range shown {
		if _, err := recur.Parse(string(m[1])); err != nil {
			t.Errorf("%s: %s: %v", apiPage, m[1], err)
		}
	}
	if len(shown) < 10 {
		t.Errorf("only %d timetables are shown", len(shown))
	}
}
