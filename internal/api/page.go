package api

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	protofiles "github.com/duetime/duetime/proto"
)

//go:embed page
var pageFiles embed.FS

// pagePolicy lets the page load its own files and call this API, and nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; " +
	"form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

// handlePage adds the file that describes the API, and the page by which people try calls. Both need no token: they say what
// everybody can read in our repository.
func handlePage(mux *http.ServeMux) error {
	page, err := newPage(protofiles.OpenAPI)
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	files := map[string][]byte{"/docs": page, "/openapi.yaml": []byte(protofiles.OpenAPI)}
	for _, name := range []string{"page.css", "page.js"} {
		if files["/docs/"+name], err = pageFiles.ReadFile("page/" + name); err != nil {
			return fmt.Errorf("page: %w", err)
		}
	}
	for at, text := range files {
		mux.Handle("GET "+at, serveFile(fileTypes[path.Ext(at)], text))
	}
	return nil
}

// fileTypes are by the end of a path; the page has none.
var fileTypes = map[string]string{
	"": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".yaml": "application/yaml",
}

func serveFile(contentType string, text []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		header := w.Header()
		header.Set("Content-Type", contentType)
		header.Set("Content-Security-Policy", pagePolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-cache") // another version may have another page
		_, _ = w.Write(text)                    // the browser has gone
	}
}

// newPage makes the page of an OpenAPI file.
func newPage(openAPI string) ([]byte, error) {
	var description apiDescription
	if err := yaml.Unmarshal([]byte(openAPI), &description); err != nil {
		return nil, err
	}
	services, err := description.services()
	if err != nil {
		return nil, err
	}
	made, err := template.New("page.html").ParseFS(pageFiles, "page/page.html")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = made.Execute(&out, services)
	return out.Bytes(), err
}

// apiDescription has what the page shows of an OpenAPI file.
type apiDescription struct {
	Tags []struct {
		Name        string `yaml:"name"`
		Description string `yaml:"description"`
	} `yaml:"tags"`
	Paths      yaml.Node `yaml:"paths"` // in the order of the file
	Components struct {
		Schemas map[string]schema `yaml:"schemas"`
	} `yaml:"components"`
}

type operation struct {
	Description string `yaml:"description"`
	RequestBody struct {
		Content map[string]struct {
			Schema  schema `yaml:"schema"`
			Example any    `yaml:"example"`
		} `yaml:"content"`
	} `yaml:"requestBody"`
}

type schema struct {
	Ref         string    `yaml:"$ref"`
	Type        any       `yaml:"type"` // a name, or a list of names
	Format      string    `yaml:"format"`
	Pattern     string    `yaml:"pattern"`
	Description string    `yaml:"description"`
	Enum        []string  `yaml:"enum"`
	Items       *schema   `yaml:"items"`
	Required    []string  `yaml:"required"`
	Properties  yaml.Node `yaml:"properties"` // in the order of the file
}

// serviceView and callView are what the page shows.
type serviceView struct {
	Name, Description string
	Calls             []callView
}

type callView struct {
	Name, Path, Description, Body string // Body is an example in JSON; empty for a stream
	Fields                        []fieldView
}

type fieldView struct {
	Path, Form, Description string
	Required                bool
}

const jsonType = "application/json"

func (d apiDescription) services() ([]serviceView, error) {
	var all []serviceView
	for _, tag := range d.Tags {
		all = append(all, serviceView{Name: tag.Name, Description: tag.Description})
	}
	err := inOrder(d.Paths, func(at string, calls map[string]operation) error {
		call, err := d.call(at, calls["post"])
		if i := slices.IndexFunc(all, func(s serviceView) bool { return "/"+s.Name == path.Dir(at) }); i >= 0 {
			all[i].Calls = append(all[i].Calls, call)
		}
		return err
	})
	return all, err
}

func (d apiDescription) call(at string, o operation) (callView, error) {
	view := callView{Name: path.Base(at), Path: at, Description: o.Description}
	content, plain := o.RequestBody.Content[jsonType]
	if !plain {
		return view, nil
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(content.Example); err != nil {
		return view, err
	}
	view.Body = strings.TrimSpace(body.String())
	return view, d.addFields(&view, "", content.Schema)
}

// addFields adds the fields of a message, and those of messages in it.
func (d apiDescription) addFields(view *callView, within string, s schema) error {
	message := d.resolved(s)
	return inOrder(message.Properties, func(name string, property schema) error {
		field := d.resolved(property)
		at := within + name
		view.Fields = append(view.Fields, fieldView{
			Path: at, Form: formName(field), Description: firstOf(property.Description, field),
			Required: slices.Contains(message.Required, name),
		})
		if field.Items != nil {
			at, field = at+"[]", d.resolved(*field.Items)
		}
		return d.addFields(view, at+".", field)
	})
}

// resolved is the schema that a reference leads to.
func (d apiDescription) resolved(s schema) schema {
	if s.Ref == "" {
		return s
	}
	return d.Components.Schemas[path.Base(s.Ref)]
}

// firstOf is the field's own description; for an enum without one, that of the enum.
func firstOf(own string, field schema) string {
	if own == "" && len(field.Enum) > 0 {
		return field.Description
	}
	return own
}

// formName is what people call a schema.
func formName(s schema) string {
	switch {
	case len(s.Enum) > 0:
		return strings.Join(s.Enum, ", ")
	case s.Format == "date-time":
		return "moment"
	case s.Pattern != "" && s.Type == "string":
		return "duration"
	case s.Type == nil:
		return "any JSON"
	case s.Items != nil:
		return "list"
	}
	return strings.Trim(fmt.Sprint(s.Type), "[]")
}

// inOrder calls fn with each key and value of an object, in the order of the file.
func inOrder[T any](object yaml.Node, fn func(key string, value T) error) error {
	for i := 0; i+1 < len(object.Content); i += 2 {
		var value T
		if err := object.Content[i+1].Decode(&value); err != nil {
			return err
		}
		if err := fn(object.Content[i].Value, value); err != nil {
			return err
		}
	}
	return nil
}
