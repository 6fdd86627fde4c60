// Command tools is the plugin with which buf makes proto/openapi.yaml: protoc-gen-connect-openapi, with its document corrected,
// and with an example of each call.
package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/sudorandom/protoc-gen-connect-openapi/converter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/pluginpb"
	"gopkg.in/yaml.v3"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	data, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	request := new(pluginpb.CodeGeneratorRequest)
	if err := proto.Unmarshal(data, request); err != nil {
		return err
	}
	response, err := converter.Convert(request)
	if err != nil {
		return err
	}
	for _, f := range response.GetFile() {
		corrected, err := correct(f.GetContent())
		if err != nil {
			return err
		}
		f.Content = &corrected
	}
	if data, err = proto.Marshal(response); err != nil {
		return err
	}
	_, err = out.Write(data)
	return err
}

// correct returns the document without what would make validators refuse legal calls.
func correct(document string) (string, error) {
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(document), &root); err != nil {
		return "", err
	}
	schemas := root.Content[0]
	for _, key := range []string{"components", "schemas"} {
		if schemas = value(schemas, key); schemas == nil {
			return "", fmt.Errorf("the document has no %s", key)
		}
	}
	walk(&root, func(object *yaml.Node) {
		removeVersion(object)
		keepConnect(object)
		moveMembers(object)
		require(object)
	})
	if err := replaceSchemas(&root, schemas); err != nil {
		return "", err
	}
	removeUnused(&root, schemas)
	if err := addExamples(value(root.Content[0], "paths")); err != nil {
		return "", err
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&root); err != nil {
		return "", err
	}
	return out.String(), encoder.Close()
}

// removeVersion removes the header by which Connect's own clients are known: it changes nothing here.
func removeVersion(call *yaml.Node) {
	if parameters := value(call, "parameters"); parameters != nil {
		parameters.Content = slices.DeleteFunc(parameters.Content, func(p *yaml.Node) bool {
			name := value(p, "name")
			return name != nil && name.Value == "Connect-Protocol-Version"
		})
	}
}

// moveMembers moves the properties of a schema's oneOf to the schema itself. The generator defines them in oneOf alone, where
// the schema's additionalProperties: false does not see them: it would refuse each of them. What is left of oneOf says that one of
// them is there; generators of clients take a schema with oneOf for one without properties, and skip what stands here in its place.
func moveMembers(schema *yaml.Node) {
	members := value(schema, "oneOf")
	if members == nil || value(schema, "additionalProperties") == nil {
		return
	}
	properties := value(schema, "properties")
	if properties == nil {
		properties = object()
		add(schema, "properties", properties)
	}
	var names []string
	for _, member := range members.Content {
		if own := value(member, "properties"); own != nil {
			names = append(names, own.Content[0].Value)
			properties.Content = append(properties.Content, own.Content...)
		}
	}
	remove(schema, "oneOf")
	alternatives, others := list(), object()
	for i, name := range names {
		alternatives.Content = append(alternatives.Content, requiring(name))
		excluded := list()
		for j, other := range names {
			if i != j {
				excluded.Content = append(excluded.Content, requiring(other))
			}
		}
		add(others, name, having("not", having("anyOf", excluded)))
	}
	add(schema, "dependentSchemas", others)                         // at most one
	add(schema, "if", having("not", having("anyOf", alternatives))) // at least one
	add(schema, "then", having("not", object()))
}

func requiring(name string) *yaml.Node { return having("required", list(text(name))) }

// require requires the properties whose comments in duetime/v1 begin with a mark.
func require(schema *yaml.Node) {
	properties := value(schema, "properties")
	if properties == nil || properties.Kind != yaml.MappingNode || value(schema, "additionalProperties") == nil {
		return
	}
	required := list()
	for i := 0; i < len(properties.Content); i += 2 {
		comment := value(properties.Content[i+1], "description")
		if comment != nil && (strings.HasPrefix(comment.Value, "Required.") || strings.HasPrefix(comment.Value, "Always set.")) {
			required.Content = append(required.Content, text(properties.Content[i].Value))
		}
	}
	if len(required.Content) > 0 {
		add(schema, "required", required)
	}
}

// replacements are schemas of ours: of errors, with the details that this API has, and of single values. The generator's Duration is
// that of ISO 8601, which would refuse "600s"; its Value is a union that generators of clients don't understand.
//
//go:embed schemas.yaml
var replacements []byte

// replaceSchemas puts replacements in the place of the generator's.
func replaceSchemas(root, schemas *yaml.Node) error {
	var ours yaml.Node
	if err := yaml.Unmarshal(replacements, &ours); err != nil {
		return err
	}
	for i := 0; i < len(ours.Content[0].Content); i += 2 {
		remove(schemas, ours.Content[0].Content[i].Value)
	}
	schemas.Content = append(schemas.Content, ours.Content[0].Content...)
	walk(root, func(object *yaml.Node) {
		if ref := value(object, "$ref"); ref != nil && ref.Value == reference("connect.error") {
			ref.Value = reference("Error")
		}
	})
	return nil
}

func reference(schema string) string { return "#/components/schemas/" + schema }

// removeUnused removes schemas that nothing refers to: entries of maps, whose equal titles are one name to generators of clients.
func removeUnused(root, schemas *yaml.Node) {
	for {
		used := map[string]bool{}
		walk(root, func(object *yaml.Node) {
			if ref := value(object, "$ref"); ref != nil {
				used[ref.Value] = true
			}
		})
		removed := false
		for i := 0; i < len(schemas.Content); {
			if used[reference(schemas.Content[i].Value)] {
				i += 2
				continue
			}
			schemas.Content = append(schemas.Content[:i:i], schemas.Content[i+2:]...)
			removed = true
		}
		if !removed {
			return
		}
	}
}

// keepConnect removes the forms of a stream that other files describe: gRPC's clients are made of duetime/v1.
func keepConnect(message *yaml.Node) {
	content := value(message, "content")
	if content == nil || value(content, "application/connect+json") == nil {
		return
	}
	content.Content = []*yaml.Node{text("application/connect+json"), value(content, "application/connect+json")}
}

// examples has a request of each call by its name, in an order in which they can be made.
//
//go:embed examples.yaml
var examples []byte

// addExamples adds the example of each call that takes JSON.
func addExamples(paths *yaml.Node) error {
	var bodies yaml.Node
	if err := yaml.Unmarshal(examples, &bodies); err != nil {
		return err
	}
	for i := 0; i < len(paths.Content); i += 2 {
		at, content := paths.Content[i].Value, paths.Content[i+1]
		for _, key := range []string{"post", "requestBody", "content", "application/json"} {
			if content = value(content, key); content == nil {
				break
			}
		}
		if content == nil { // a stream
			continue
		}
		body := value(bodies.Content[0], path.Base(at))
		if body == nil {
			return fmt.Errorf("examples.yaml has no %s", path.Base(at))
		}
		add(content, "example", body)
	}
	return nil
}

// walk calls fn with each object at and below the node.
func walk(node *yaml.Node, fn func(object *yaml.Node)) {
	if node.Kind == yaml.MappingNode {
		fn(node)
	}
	for _, n := range node.Content {
		walk(n, fn)
	}
}

// at returns the place of a key in an object's content, which alternates keys and values, or -1.
func at(object *yaml.Node, key string) int {
	for i := 0; object.Kind == yaml.MappingNode && i < len(object.Content); i += 2 {
		if object.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// value returns the value of an object's key, or nil.
func value(object *yaml.Node, key string) *yaml.Node {
	if i := at(object, key); i >= 0 {
		return object.Content[i+1]
	}
	return nil
}

func add(object *yaml.Node, key string, v *yaml.Node) {
	object.Content = append(object.Content, text(key), v)
}

func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

func list(items ...*yaml.Node) *yaml.Node { return &yaml.Node{Kind: yaml.SequenceNode, Content: items} }

func object() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode} }

// having makes an object of one key.
func having(key string, v *yaml.Node) *yaml.Node {
	made := object()
	add(made, key, v)
	return made
}

func remove(object *yaml.Node, key string) {
	if i := at(object, key); i >= 0 {
		object.Content = append(object.Content[:i:i], object.Content[i+2:]...)
	}
}
