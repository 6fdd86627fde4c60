package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	nearby "github.com/duetime/duetime/internal/near"
)

// A name that is nearly one of ours is a mistake, and its value would be missed silently.

// orchestratorNames match the variables that orchestrators inject for a service, such as DUETIME_SERVICE_HOST and
// DUETIME_WORKER_PORT_9090_TCP_ADDR: they say where a service named duetime is, and are not settings of ours.
var orchestratorNames = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// nearKey returns the key or section that is near an unknown key of the file, or the only one that ends in its name.
func (s schema) nearKey(key string) string {
	all := slices.Sorted(maps.Keys(s.fields))
	for _, section := range slices.Sorted(maps.Keys(s.sections)) {
		if section != "" && !strings.HasPrefix(key, section+".") {
			all = append(all, section)
		}
	}
	if near := nearby.Of(key, all); near != "" {
		return near
	}
	var found string
	for _, known := range all {
		if strings.HasSuffix(known, "."+key) && key != "" {
			if found != "" {
				return ""
			}
			found = known
		}
	}
	return found
}

// variables maps the names of environment variables to their keys. Only queues has no variable.
func (s schema) variables() map[string]string {
	names := map[string]string{"DUETIME_NAMESPACE": "namespace", "DUETIME_SHARDS": "shards"}
	for key := range s.fields {
		if strings.Contains(key, ".") {
			names[envPrefix+strings.ToUpper(strings.ReplaceAll(key, ".", levelMark))] = key
		}
	}
	return names
}

// misnamed says what is wrong with a variable of our prefix that sets no key: its unknown name has a level mark, or is
// near a known one. It returns nothing for other programs' variables.
func (s schema) misnamed(name string, known map[string]string) string {
	if orchestratorNames.MatchString(name) {
		return ""
	}
	for section := range s.foreign {
		if strings.HasPrefix(name, envPrefix+strings.ToUpper(section)+levelMark) {
			return ""
		}
	}
	near := nearby.Of(name, append(slices.Sorted(maps.Keys(known)), envPrefix+"QUEUES"))
	switch {
	case near == envPrefix+"QUEUES":
		return "environment variable " + name + ": queues can be set in the file only"
	case near != "":
		return "unknown environment variable " + name + ", did you mean " + near + "?"
	case strings.Contains(name, levelMark):
		return "unknown environment variable " + name
	}
	return ""
}
