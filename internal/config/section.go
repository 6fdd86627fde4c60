package config

import "reflect"

// Section is the part of the file that belongs to one program. It is a pointer to a struct whose fields are tagged as a
// Config's fields are. They hold their defaults until Load fills them.
type Section interface {
	// Name is the section's key in the file; its keys begin with it.
	Name() string
	// Validate adds the mistakes in the section's values, by the full names of the keys.
	Validate(p *Problems)
}

// crossChecked is a Section whose values must fit keys outside of it.
type crossChecked interface {
	// ValidateWith adds the mistakes that show beside the other keys.
	ValidateWith(c Config, p *Problems)
}

// programSections are the names of all programs' sections. All processes share one file and one environment: a process
// that has not passed such a section to Load ignores its keys, and the section's own program checks them.
var programSections = map[string]bool{"game": true, "console": true, "deliver": true, "api": true}

// fieldsOf lists the keys of c and of the sections in the order of the structs. Every listing has this order.
func fieldsOf(c *Config, sections ...Section) []field {
	fields := appendFields(nil, "", reflect.ValueOf(c).Elem())
	for _, s := range sections {
		fields = appendFields(fields, s.Name()+".", reflect.ValueOf(s).Elem())
	}
	return fields
}
