// Package dsn checks the parameters of a MySQL DSN that a caller gives: it tells which parameters stay the caller's,
// which ones duetime can't work with, and which ones have no effect because duetime sets them itself.
//
// It promises that no parameter is overridden silently: Check refuses the parameter by its name, or Unused lists it.
// Every other parameter is the caller's. It applies in InTx, in handlers and on the client's handle, as on a handle that
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

	"github.com/duetime/duetime/internal/loopback"
)

// requirement is a parameter on which one of duetime's promises depends, and the values with which the promise holds.
type requirement struct {
	values []string // in capitals, the recommended value first
	why    string
}

// requirements are system variables as the DSN names them. Any other value is refused, because the service's own
// statements would not run as its DSN says.
var requirements = map[string]requirement{
	"transaction_isolation": {[]string{"READ-COMMITTED"}, "tasks change at READ COMMITTED"},
	"tx_isolation":          {[]string{"READ-COMMITTED"}, "tasks change at READ COMMITTED"},
	"transaction_read_only": {[]string{"0", "OFF", "FALSE"}, "tasks are written"},
	"tx_read_only":          {[]string{"0", "OFF", "FALSE"}, "tasks are written"},
	"autocommit":            {[]string{"1", "ON", "TRUE"}, "a single statement commits by itself"},
	"completion_type":       {[]string{"0", "NO_CHAIN"}, "a commit ends its transaction, and nothing else"},
	"unique_checks":         {[]string{"1", "ON", "TRUE"}, "a task's key is unique"},
	"sql_select_limit":      {[]string{"DEFAULT", "18446744073709551615"}, "a list of tasks is whole"},
	"timestamp":             {[]string{"0", "DEFAULT"}, "the database's clock decides what is due"},
	"character_set_client":  {[]string{"UTF8MB4"}, utf8mb4Reason},
	"character_set_results": {[]string{"UTF8MB4"}, utf8mb4Reason},

	"character_set_connection": {[]string{"UTF8MB4"}, utf8mb4Reason},
}

// insecure are the driver's parameters that expose a link to somebody on the network, and the values that do.
var insecure = map[string]struct {
	values    []string // in capitals
	want, why string
}{
	"tls":                      {[]string{"SKIP-VERIFY", "PREFERRED"}, "true, or mysql.tls.ca_file set instead", "certificates are always checked"},
	"allowFallbackToPlaintext": {trueWords, "left out", "whoever sits on the line could say that the server has no TLS"},
	"allowOldPasswords":        {trueWords, "left out", "the password could be read from the line"},
}

// trueWords are the driver's words for true, in capitals.
var trueWords = []string{"1", "TRUE"}

// utf8mb4Reason is why a charset or a collation is refused.
const utf8mb4Reason = "owners and payloads are of any letters"

// Check refuses a DSN with which duetime can't work. The error is one line that names each wrong parameter and the value
// to write instead. Check accepts a text that is no DSN: the driver reports what is wrong with it.
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

// Unreadable says why the driver can't read a DSN, if its zones are the cause; empty otherwise. The driver takes the last
// slash, even one in a zone's name, for the one before the schema.
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

// Unused lists the parameters without effect: duetime sets them on all its connections.
func Unused(text string) []string {
	var unused []string
	for _, p := range parameters(text) {
		switch p.name {
		case "innodb_lock_wait_timeout", "wait_timeout", "lock_wait_timeout", "sql_big_selects", "sql_safe_updates":
			unused = append(unused, p.name)
		case "interpolateParams", "rejectReadOnly":
			if !slices.Contains(trueWords, strings.ToUpper(p.value)) {
				unused = append(unused, p.name)
			}
		}
	}
	return unused
}

// Zones says how NOW(), TIMESTAMP columns and defaults of the service's own tables differ from the times that the driver
// writes; empty if they agree, or if only the server knows. loc is the driver's zone, time_zone the session's.
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
	switch {
	case err != nil, loc == zone, loc == "Local", zone == "" && loc == "UTC", strings.EqualFold(zone, "SYSTEM"):
		return ""
	case zone == "":
		return "loc without time_zone: NOW() and TIMESTAMP columns are in the server's zone, times of Go in " + loc
	case strings.ContainsAny(zone[:1], "+-") && zone == time.Now().In(at).Format("-07:00"):
		return ""
	}
	return fmt.Sprintf("loc is %s and time_zone is %s: NOW() and times of Go differ", loc, zone)
}

// Cleartext returns the host to which a password would travel unencrypted: one that is not this machine, over TCP,
// without TLS in the DSN. It is empty if there is none. The caller has to check whether TLS is set elsewhere.
func Cleartext(text string) string {
	address := text[:max(0, strings.LastIndexByte(text, '/'))]
	at := strings.LastIndexByte(address, '@')
	_, password, _ := strings.Cut(address[:max(0, at)], ":")
	host, tcp := strings.CutPrefix(address[at+1:], "tcp(")
	if !tcp || password == "" {
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
	if loopback.Is(host) {
		return ""
	}
	return strings.Trim(host, "[]")
}

// parameter is a parameter of a DSN. Its value is without quotes, as the server gets it.
type parameter struct {
	name, value string
	quoted      bool
}

// parameters reads the parameters after the schema's name.
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
	case "charset": // the driver takes the first charset that the server knows, and every server knows utf8mb4
		first, _, _ := strings.Cut(p.value, ",")
		return p.refuseUnless(strings.EqualFold(first, "utf8mb4"), "utf8mb4", utf8mb4Reason)
	case "collation", "collation_connection":
		return p.refuseUnless(strings.HasPrefix(strings.ToLower(p.value), "utf8mb4_"), "one of utf8mb4", utf8mb4Reason)
	}
	if p.name == "time_zone" && !p.quoted && p.value != "" && strings.ContainsAny(p.value, "+-/:") {
		return "parameter time_zone: an offset or a name must stand in quotes, as in time_zone=%27%2B08:00%27"
	}
	if weak, known := insecure[p.name]; known {
		return p.refuseUnless(!slices.Contains(weak.values, strings.ToUpper(p.value)), weak.want, weak.why)
	}
	n, known := requirements[strings.ToLower(p.name)]
	if !known {
		return ""
	}
	return p.refuseUnless(slices.Contains(n.values, strings.ToUpper(p.value)), n.values[0]+" or left out", n.why)
}

func (p parameter) refuseUnless(fine bool, want, why string) string {
	if fine {
		return ""
	}
	return fmt.Sprintf("parameter %s: %q can't be, it must be %s: %s", p.name, p.value, want, why)
}
