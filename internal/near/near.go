// Package near finds the name that somebody meant who has misspelt it, for errors that ask "did you mean". It decides nothing:
// a misspelt name is never taken for the one that is near.
package near

import "strings"

// Of returns the candidate that is near the name; empty if none is. A candidate is near if it is the same but for dots, dashes,
// underscores and capitals, or if one letter is missing, too many, wrong or swapped.
func Of(name string, candidates []string) string {
	plain := letters(name)
	for _, c := range candidates {
		if letters(c) == plain {
			return c
		}
	}
	for _, c := range candidates {
		if other := letters(c); len(other) > 3 && differInOneLetter(plain, other) {
			return c
		}
	}
	return ""
}

// letters returns a name in small letters, without the separators of its words.
func letters(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", ".", "", "-", "").Replace(name))
}

// differInOneLetter reports whether one letter is missing, too many, wrong or swapped with the next one.
func differInOneLetter(a, b string) bool {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a)+len(b) == 1 || len(a) == 1 && len(b) == 1 {
		return true
	}
	return len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
}
