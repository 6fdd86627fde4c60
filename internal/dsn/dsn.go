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
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
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

// weakens are the driver's parameters that open a link to whoever sits on it, and the values that do.
var weakens = map[string]struct {
	values    []string // in capitals
	want, why string
}{
	"tls":                      {[]string{"SKIP-VERIFY", "PREFERRED"}, "true, or mysql.tls.ca_file set instead", "certificates are always checked"},
	"allowFallbackToPlaintext": {yes, "left out", "whoever sits on the line could say that the server has no TLS"},
	"allowOldPasswords":        {yes, "left out", "the password could be read from the line"},
}

// yes are the driver's words for it.
var yes = []string{"1", "TRUE"}

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

// Unreadable says why the driver can't read a DSN, where that is a slip in its zones; empty otherwise. The driver takes the
// last slash for the one before the schema.
func Unreadable(text string) string {
	if start := strings.IndexByte(text, '?'); start >= 0 && strings.LastIndexByte(text, '/') > start {
		for _, name := range []string{"loc", "time_zone"} {
			_, value, found := strings.Cut(text[start:], name+"=")
			value, _, _ = strings.Cut(value, "&")
			if found && strings.Contains(value, "/") {
				return fmt.Sprintf("parameter %s: a slash in a value is written %%2F, as in loc=Asia%%2FShanghai", name)
			}
		}
	}
	for _, p := range parameters(text) {
		if p.name == "loc" {
			if _, err := time.LoadLocation(p.value); err != nil {
				return fmt.Sprintf("parameter loc: %q is no time zone that this machine knows", p.value)
			}
		}
	}
	return ""
}

// Unused lists the parameters that have no effect, because duetime sets them on all its connections, or on its workers'.
func Unused(text string) []string {
	var unused []string
	for _, p := range parameters(text) {
		switch p.name {
		case "innodb_lock_wait_timeout", "wait_timeout", "lock_wait_timeout", "sql_big_selects", "sql_safe_updates":
			unused = append(unused, p.name)
		case "interpolateParams", "rejectReadOnly":
			if !slices.Contains(yes, strings.ToUpper(p.value)) {
				unused = append(unused, p.name)
			}
		}
	}
	return unused
}

// Zones says how NOW(), TIMESTAMP columns and defaults of the service's own tables differ from the times that the driver writes;
// empty where they agree, or where only the server knows. loc is the driver's zone, time_zone the session's.
func Zones(text string) string {
	loc, zone := "UTC", ""
	for _, p := range parameters(text) {
		switch p.name {
		case "loc":
			loc = p.value
		case "time_zone":
			zone = p.value
		}
	}
	at, err := time.LoadLocation(loc)
	_, offset := time.Now().In(at).Zone()
	switch {
	case err != nil, loc == zone, loc == "Local", zone == "" && loc == "UTC", strings.EqualFold(zone, "SYSTEM"):
		return ""
	case zone == "":
		return "loc without time_zone: NOW() and TIMESTAMP columns are in the server's zone, times of Go in " + loc
	case strings.ContainsAny(zone[:1], "+-") && zone == offsetText(offset):
		return ""
	}
	return fmt.Sprintf("loc is %s and time_zone is %s: NOW() and times of Go differ", loc, zone)
}

// offsetText writes seconds east of UTC as MySQL does: +08:00.
func offsetText(seconds int) string {
	sign := '+'
	if seconds < 0 {
		sign, seconds = '-', -seconds
	}
	return fmt.Sprintf("%c%02d:%02d", sign, seconds/3600, seconds/60%60)
}

// Cleartext returns the host to which a password would travel in the clear: one that is not this machine, over TCP, without
// TLS by the DSN. It is empty where none would. Whether TLS is asked for elsewhere is for the caller to know.
func Cleartext(text string) string {
	address := text[:max(0, strings.LastIndexByte(text, '/'))]
	account, server, found := cutLast(address, "@")
	_, password, _ := strings.Cut(account, ":")
	host, tcp := strings.CutPrefix(server, "tcp(")
	if !found || !tcp || password == "" {
		return ""
	}
	for _, p := range parameters(text) {
		if p.name == "tls" && !slices.Contains([]string{"0", "FALSE"}, strings.ToUpper(p.value)) {
			return ""
		}
	}
	host = strings.TrimSuffix(host, ")")
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return ""
	}
	return host
}

// cutLast cuts at the last separator.
func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

// parameter is one of a DSN's, with its value as the server gets it, without its quotes.
type parameter struct {
	name, value string
	quoted      bool
}

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
		list = append(list, parameter{name, strings.Trim(value, `'" `), strings.HasPrefix(value, "'") || strings.HasPrefix(value, `"`)})
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
	if p.name == "time_zone" && !p.quoted && p.value != "" && strings.ContainsAny(p.value, "+-/:") {
		return "parameter time_zone: an offset or a name must stand in quotes, as in time_zone=%27%2B08:00%27"
	}
	if weak, known := weakens[p.name]; known {
		return p.unless(!slices.Contains(weak.values, strings.ToUpper(p.value)), weak.want, weak.why)
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
