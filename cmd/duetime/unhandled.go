package main

import (
	"fmt"
	"strings"

	"github.com/duetime/duetime/internal/store"
)

const notedKinds = 3 // in one line

// unhandledNote names the kinds that have most tasks waiting for a worker that knows them; empty if none has.
func unhandledNote(all []store.Unhandled) string {
	var names []string
	for i, u := range all {
		if i == notedKinds {
			names = append(names, fmt.Sprintf("and %d more kinds", len(all)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s in queue %s: %d waiting", oneLine(u.Kind), oneLine(u.Queue), u.Tasks))
	}
	return strings.Join(names, ", ")
}
