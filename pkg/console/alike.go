package console

import (
	"bytes"
	"strings"
)

const (
	placeholder = '#' // for a number or an id
	uuidLength  = 36
	longWord    = 12 // letters; a longer word with a digit is an id
	longHex     = 8  // letters; a longer hexadecimal number with a digit is an id
)

// alikeError replaces numbers and ids in an error's text, so that errors which differ in nothing else are equal.
func alikeError(text string) string {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		length := 1
		switch {
		case isUUID(text[i:]):
			length = uuidLength
			out = appendWord(out, string(placeholder))
		case inWord(text[i]):
			for i+length < len(text) && inWord(text[i+length]) {
				length++
			}
			out = appendWord(out, alikeWord(text[i:i+length]))
		default:
			out = append(out, text[i])
		}
		i += length
	}
	return string(out)
}

// appendWord appends a word. Numbers that are joined, as in 10.0.0.7 and 2026-11-27, become one.
func appendWord(out []byte, word string) []byte {
	n := len(out)
	if word[0] == placeholder && n > 1 && out[n-2] == placeholder && bytes.IndexByte([]byte(".:-"), out[n-1]) >= 0 {
		return append(out[:n-1], word[1:]...)
	}
	return append(out, word...)
}

// alikeWord replaces the numbers in a word, or the whole word if it is an id.
func alikeWord(word string) string {
	digits, hex := 0, true
	for i := range len(word) {
		if isDigit(word[i]) {
			digits++
		}
		hex = hex && isHex(word[i])
	}
	if digits > 0 && (len(word) >= longWord || hex && len(word) >= longHex) {
		return string(placeholder)
	}
	var b strings.Builder
	for i := range len(word) {
		switch {
		case !isDigit(word[i]):
			b.WriteByte(word[i])
		case i == 0 || !isDigit(word[i-1]):
			b.WriteByte(placeholder)
		}
	}
	return b.String()
}

func isUUID(text string) bool {
	if len(text) < uuidLength {
		return false
	}
	for i := range uuidLength {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash && text[i] != '-' || !dash && !isHex(text[i]) {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// inWord reports whether a byte is part of a word that may be an id.
func inWord(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}
