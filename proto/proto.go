// Package proto holds the file that describes the JSON form of the API, embedded for the process that serves it. It owns no
// logic: make proto makes the file of duetime/v1.
package proto

import _ "embed"

// OpenAPI is proto/openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI string
