// Command tools is the plugin with which buf makes proto/openapi.yaml: protoc-gen-connect-openapi, with its document corrected.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

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
	// OpenAPI's format duration is that of ISO 8601: it would refuse "600s".
	if duration := value(schemas, "google.protobuf.Duration"); duration != nil {
		remove(duration, "format")
		add(duration, "pattern", &yaml.Node{Kind: yaml.ScalarNode, Value: `^-?[0-9]+(\.[0-9]{1,9})?s$`})
	}
	// Its examples are durations.
	if timestamp := value(schemas, "google.protobuf.Timestamp"); timestamp != nil {
		remove(timestamp, "examples")
	}
	walk(&root, func(object *yaml.Node) {
		// The server answers calls without this header too.
		if name := value(object, "name"); name != nil && name.Value == "Connect-Protocol-Version" {
			remove(object, "required")
		}
		moveMembers(object)
	})
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&root); err != nil {
		return "", err
	}
	return out.String(), encoder.Close()
}

// moveMembers moves the properties of a schema's oneOf to the schema itself. The generator defines them in oneOf alone, where
// the schema's additionalProperties: false does not see them: it would refuse each of them.
func moveMembers(schema *yaml.Node) {
	members := value(schema, "oneOf")
	if members == nil || value(schema, "additionalProperties") == nil {
		return
	}
	properties := value(schema, "properties")
	if properties == nil {
		properties = &yaml.Node{Kind: yaml.MappingNode}
		add(schema, "properties", properties)
	}
	for _, member := range members.Content {
		if own := value(member, "properties"); own != nil {
			properties.Content = append(properties.Content, own.Content...)
			remove(member, "properties")
		}
	}
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
	object.Content = append(object.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, v)
}

func remove(object *yaml.Node, key string) {
	if i := at(object, key); i >= 0 {
		object.Content = append(object.Content[:i:i], object.Content[i+2:]...)
	}
}
