package imports

import (
	"encoding/json"
	"fmt"
)

// field returns the text of a top-level string or number of a JSON object.
func field(payload []byte, name string) (string, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(payload, &object); err != nil || object == nil {
		return "", fmt.Errorf("its payload is no JSON object, which would have the owner in %q", name)
	}
	value, present := object[name]
	if !present {
		return "", fmt.Errorf("its payload has no field %q", name)
	}
	var text string
	if err := json.Unmarshal(value, &text); err == nil && text != "" {
		return text, nil
	}
	var number json.Number
	if err := json.Unmarshal(value, &number); err == nil && number != "" {
		return number.String(), nil
	}
	return "", fmt.Errorf("field %q of its payload is no text and no number", name)
}
