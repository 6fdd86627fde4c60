package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/duetime/duetime/internal/near"
)

// form is how JSON spells the values of a field.
type form struct {
	says string
	// meant returns a value of this form, in JSON, that somebody may have meant; empty if there is none. It gets the value's text,
	// without quotes if it is a string. Forms without near values have nil.
	meant func(text string) string
}

// problem says what is wrong with a value in JSON, which the decoder has refused with err.
func (f form) problem(value []byte, err error) string {
	text, isText := string(value), value[0] == '"'
	if isText {
		_ = json.Unmarshal(value, &text) // it is a part of what was read before
	}
	switch {
	case f.says == "":
		return "can't be read: " + reasonIn(err)
	case f.meant == nil:
		return f.says + andIs(value)
	}
	if meant := f.meant(text); meant != "" {
		return fmt.Sprintf("%s%s: did you mean %s?", f.says, andIs(value), meant)
	}
	return f.says + andIs(value)
}

// Messages that JSON spells as a single value.
const (
	durationName  protoreflect.FullName = "google.protobuf.Duration"
	timestampName protoreflect.FullName = "google.protobuf.Timestamp"
	valueName     protoreflect.FullName = "google.protobuf.Value"
)

func isKnown(m protoreflect.MessageDescriptor) bool {
	return m.FullName() == durationName || m.FullName() == timestampName || m.FullName() == valueName
}

// formOf is the form of a field's single value, of which a list or a map has many.
func formOf(f protoreflect.FieldDescriptor) form {
	if m := f.Message(); m != nil {
		switch m.FullName() {
		case durationName:
			return form{`must be seconds with an s, such as "600s" or "0.5s"`, secondsOf}
		case timestampName:
			return form{`must be a moment with its zone, such as "2026-11-27T10:10:00Z" or "2026-11-27T18:10:00+08:00"`, momentOfText}
		}
		return form{} // any JSON: the decoder knows what is wrong in it
	}
	switch kind := f.Kind(); kind {
	case protoreflect.EnumKind:
		return form{namesOf(f.Enum()), func(text string) string { return nameNear(text, f.Enum()) }}
	case protoreflect.BoolKind:
		return form{"must be true or false", boolNear}
	case protoreflect.StringKind:
		return form{"must be a string of valid Unicode", quotedNumber}
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return form{"must be a whole number of 32 bits", nil}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return form{"must be a whole number of 64 bits", nil}
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return form{"must be a whole number of 0 or more", nil}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return form{"must be a number", nil}
	case protoreflect.BytesKind:
		return form{"must be bytes as base64", nil}
	default:
		return form{"must be of the kind " + kind.String(), nil}
	}
}

// names are those of an enum but for the first, which stands for an absent field.
func names(e protoreflect.EnumDescriptor) (names []string) {
	for i := 1; i < e.Values().Len(); i++ {
		names = append(names, string(e.Values().Get(i).Name()))
	}
	return names
}

func namesOf(e protoreflect.EnumDescriptor) string {
	return "must be one of " + strings.Join(names(e), ", ")
}

// nameNear takes a name without its prefix too: pending for STATE_PENDING.
func nameNear(text string, e protoreflect.EnumDescriptor) string {
	prefix := strings.TrimSuffix(string(e.Values().Get(0).Name()), "UNSPECIFIED")
	for _, name := range []string{text, prefix + text} {
		if meant := near.Of(name, names(e)); meant != "" {
			return strconv.Quote(meant)
		}
	}
	return ""
}

func boolNear(text string) string {
	if meant := strings.ToLower(text); meant == "true" || meant == "false" {
		return meant
	}
	return ""
}

// quotedNumber has a number or a truth value in quotes: owners and keys are often numbers elsewhere.
func quotedNumber(text string) string {
	if _, err := strconv.ParseFloat(text, 64); err == nil || text == "true" || text == "false" {
		return `"` + text + `"`
	}
	return ""
}

// secondsOf reads a number of seconds, and durations as Go and ISO 8601 write them: 600, 10m, PT10M.
func secondsOf(text string) string {
	text = strings.ToLower(text)
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		text += "s"
	}
	d, err := time.ParseDuration(strings.TrimPrefix(text, "pt"))
	if err != nil {
		return ""
	}
	return jsonOf(durationpb.New(d))
}

// momentOfText reads Unix time in seconds or milliseconds, and what others write for a moment.
func momentOfText(text string) string {
	const secondsTo = 100_000_000_000 // of the year 5138; as milliseconds it is March 1973
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
		if n < secondsTo {
			n *= 1000
		}
		return jsonOf(timestamppb.New(time.UnixMilli(n)))
	}
	if len(text) > 10 && (text[10] == ' ' || text[10] == 't') {
		text = text[:10] + "T" + text[11:]
	}
	for _, layout := range []string{
		// Without a zone, which is read as UTC.
		"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02", "2006-01-02T15:04:05 UTC", http.TimeFormat,
		// With a zone otherwise than RFC 3339 has it.
		time.RFC3339, time.RFC1123Z, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05 Z0700",
		"2006-01-02T15:04:05 Z07:00",
	} {
		if at, err := time.Parse(layout, strings.Replace(text, "z", "Z", 1)); err == nil {
			return jsonOf(timestamppb.New(at))
		}
	}
	return ""
}

// jsonOf is the JSON of a message that JSON spells as a single value; empty for one out of its range.
func jsonOf(m proto.Message) string {
	text, err := protojson.Marshal(m)
	if err != nil {
		return ""
	}
	return string(text)
}
