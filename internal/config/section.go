package config

import "reflect"

// Section is a part of the file that belongs to one program. It is a pointer to a struct whose fields have the tags of a
// Config's and hold their defaults until Load fills them.
type Section interface {
	// Name is the section's key in the file, which its keys begin with.
	Name() string
	// Validate adds what is wrong with the section's values, by the full names of the keys.
	Validate(p *Problems)
}

// programSections are the names of all sections that belong to programs. All processes share one file and one environment: a
// process that has not given such a section to Load leaves its keys alone, for the section's own program to check.
var programSections = map[string]bool{"game": true}

// fieldsOf lists the keys of c and of the sections in the order of every listing, which is the order of the structs.
func fieldsOf(c *Config, sections ...Section) []field {
	fields := appendFields(nil, "", reflect.ValueOf(c).Elem())
	for _, s := range sections {
		fields = appendFields(fields, s.Name()+".", reflect.ValueOf(s).Elem())
	}
	return fields
}
