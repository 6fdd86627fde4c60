// Package dsn judges the parameters of a MySQL DSN that a caller gives: which ones stay the caller's, which ones duetime
// can't work with, and which ones have no effect because duetime sets them itself.
//
// It promises that no parameter is overridden without a word: Check refuses it by its name, or Unused lists it. Whatever
// neither of them names is the caller's, and holds in InTx, in handlers and on the client's handle as on a handle that
// the caller opens with the same DSN: loc, parseTime, time_zone, clientFoundRows, multiStatements, sql_mode and the like.
//
// It opens no connection, and never repeats a value that may be a secret.
package dsn

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// need is a parameter on which one of duetime's promises rests, and the values with which the promise holds.
type need struct {
	values []string // in capitals, the one to write first
	why    string
}

// needs holds system variables as the DSN names them. A DSN that gives one of them another value is refused, because the
// service's own statements would not run as its DSN says.
var needs = map[string]need{
	"transaction_isolation": {[]string{"READ-COMMITTED"}, "tasks change at READ COMMITTED"},
	"tx_isolation":          {[]string{"READ-COMMITTED"}, "tasks change at READ COMMITTED"},
	"transaction_read_only": {[]string{"0", "OFF", "FALSE"}, "tasks are written"},
	"tx_read_only":          {[]string{"0", "OFF", "FALSE"}, "tasks are written"},
	"autocommit":            {[]string{"1", "ON", "TRUE"}, "a single statement commits by itself"},
	"completion_type":       {[]string{"0", "NO_CHAIN"}, "a commit ends its transaction, and nothing else"},
	"unique_checks":         {[]string{"1", "ON", "TRUE"}, "a task's key is unique"},
	"sql_select_limit":      {[]string{"DEFAULT", "18446744073709551615"}, "a list of tasks is whole"},
	"timestamp":             {[]string{"0", "DEFAULT"}, "the database's clock decides what is due"},
	"character_set_client":  {[]string{"UTF8MB4"}, letters},
	"character_set_results": {[]string{"UTF8MB4"}, letters},

	"character_set_connection": {[]string{"UTF8MB4"}, letters},
}

// letters is why a charset or a collation is refused.
const letters = "owners and payloads are of any letters"

// Check refuses a DSN that asks for what duetime can't work with. The error is one line that names each such parameter
// and what to write in its place. A text that is no DSN passes: the driver says what is wrong with it.
func Check(text string) error {
	var wrong []string
	for _, p := range parameters(text) {
		if problem := p.problem(); problem != "" {
			wrong = append(wrong, problem)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong, "; "))
}

// Unused lists the parameters that have no effect, because duetime sets them on all its connections, or on its workers'.
func Unused(text string) []string {
	var unused []string
	for _, p := range parameters(text) {
		switch p.name {
		case "innodb_lock_wait_timeout", "wait_timeout", "lock_wait_timeout", "sql_big_selects", "sql_safe_updates":
			unused = append(unused, p.name)
		case "interpolateParams", "rejectReadOnly":
			if !slices.Contains([]string{"1", "TRUE"}, strings.ToUpper(p.value)) {
				unused = append(unused, p.name)
			}
		}
	}
	return unused
}

// parameter is one of a DSN's, with its value as the server gets it, but for quotes.
type parameter struct{ name, value string }

// parameters reads what follows the question mark after the schema's name.
func parameters(text string) []parameter {
	_, query, _ := strings.Cut(text[strings.LastIndexByte(text, '/')+1:], "?")
	var list []parameter
	for pair := range strings.SplitSeq(query, "&") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			continue
		}
		if plain, err := url.QueryUnescape(value); err == nil {
			value = plain
		}
		list = append(list, parameter{name, strings.Trim(value, `'" `)})
	}
	return list
}

// problem says why duetime can't work with the parameter; empty if it can.
func (p parameter) problem() string {
	switch p.name {
	case "charset": // the first of a list that the server knows is taken, and every server knows utf8mb4
		first, _, _ := strings.Cut(p.value, ",")
		return p.unless(strings.EqualFold(first, "utf8mb4"), "utf8mb4", letters)
	case "collation", "collation_connection":
		return p.unless(strings.HasPrefix(strings.ToLower(p.value), "utf8mb4_"), "one of utf8mb4", letters)
	}
	n, known := needs[strings.ToLower(p.name)]
	if !known {
		return ""
	}
	return p.unless(slices.Contains(n.values, strings.ToUpper(p.value)), n.values[0]+" or left out", n.why)
}

func (p parameter) unless(fine bool, want, why string) string {
	if fine {
		return ""
	}
	return fmt.Sprintf("parameter %s: %q can't be, it must be %s: %s", p.name, p.value, want, why)
}
