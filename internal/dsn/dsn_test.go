package dsn_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/dsn"
)

const address = "duetime:se/c?ret@tcp(db:3306)/game"

func TestCallersParametersPass(t *testing.T) {
	t.Parallel()
	for _, parameters := range []string{
		"", "?", "?parseTime=true&loc=Asia%2FShanghai&time_zone=%27%2B08%3A00%27", "?clientFoundRows=true&multiStatements=true",
		"?charset=utf8mb4,utf8&collation=utf8mb4_0900_ai_ci", "?charset=UTF8MB4", "?sql_mode=%27ANSI%27&readTimeout=5s&compress=true",
		"?transaction_isolation=%27READ-COMMITTED%27&autocommit=1&unique_checks=ON&timestamp=DEFAULT", "?x=y=z",
		"?sql_select_limit=DEFAULT&completion_type=NO_CHAIN&tx_read_only=0&character_set_results=utf8mb4", "?loc",
	} {
		if err := dsn.Check(address + parameters); err != nil {
			t.Errorf("%s: got %v, want none", parameters, err)
		}
		if unused := dsn.Unused(address + parameters); len(unused) > 0 {
			t.Errorf("%s: got %v without effect, want none", parameters, unused)
		}
	}
	if err := dsn.Check("no dsn at all"); err != nil {
		t.Errorf("no DSN: got %v, want none: the driver says what is wrong", err)
	}
}

func TestOthersAreRefusedByName(t *testing.T) {
	t.Parallel()
	for parameter, name := range map[string]string{
		"charset=latin1":                                 "charset",
		"charset=utf8,utf8mb4":                           "charset",
		"collation=latin1_swedish_ci":                    "collation",
		"collation_connection=utf8mb3_bin":               "collation_connection",
		"character_set_client=gbk":                       "character_set_client",
		"character_set_results=latin1":                   "character_set_results",
		"transaction_isolation=%27REPEATABLE-READ%27":    "transaction_isolation",
		"tx_isolation=%22SERIALIZABLE%22":                "tx_isolation",
		"TRANSACTION_ISOLATION='read-uncommitted'":       "TRANSACTION_ISOLATION",
		"transaction_read_only=1":                        "transaction_read_only",
		"autocommit=0":                                   "autocommit",
		"completion_type=CHAIN":                          "completion_type",
		"unique_checks=off":                              "unique_checks",
		"sql_select_limit=10":                            "sql_select_limit",
		"timestamp=1577836800":                           "timestamp",
		"tls=skip-verify":                                "tls",
		"tls=Preferred":                                  "tls",
		"tls=true&allowFallbackToPlaintext=true":         "allowFallbackToPlaintext",
		"allowOldPasswords=1":                            "allowOldPasswords",
		"parseTime=true&autocommit=OFF&loc=Asia%2FTokyo": "autocommit",
		"time_zone=+08:00":                               "time_zone",
		"time_zone=Asia%2FShanghai":                      "time_zone",
	} {
		err := dsn.Check(address + "?" + parameter)
		if err == nil || !strings.HasPrefix(err.Error(), "parameter "+name+": ") || strings.Contains(err.Error(), "ret@") {
			t.Errorf("%s: got %v, want a refusal of %s", parameter, err, name)
		}
	}
	err := dsn.Check(address + "?charset=latin1&autocommit=0")
	if err == nil || !strings.Contains(err.Error(), "charset") || !strings.Contains(err.Error(), "autocommit") {
		t.Errorf("got %v, want both refused", err)
	}
}

func TestZones(t *testing.T) {
	t.Parallel()
	for parameters, want := range map[string]string{
		"":                                "",
		"?parseTime=true":                 "",
		"?loc=UTC":                        "",
		"?loc=Asia%2FShanghai":            "loc without time_zone: NOW() and TIMESTAMP columns are in the server's zone, times of Go in Asia/Shanghai",
		"?time_zone=%27%2B08:00%27":       "loc is UTC and time_zone is +08:00: NOW() and times of Go differ",
		"?time_zone=SYSTEM&loc=UTC":       "",
		"?loc=Local":                      "",
		"?time_zone=%27%2B00:00%27":       "",
		"?loc=UTC&time_zone=%27-03:30%27": "loc is UTC and time_zone is -03:30: NOW() and times of Go differ",
		"?loc=Asia%2FShanghai&time_zone=%27%2B08:00%27":        "",
		"?loc=Asia%2FShanghai&time_zone=%27Asia%2FShanghai%27": "",
		"?loc=Asia%2FShanghai&time_zone=%27Asia%2FTokyo%27":    "loc is Asia/Shanghai and time_zone is Asia/Tokyo: NOW() and times of Go differ",
	} {
		if got := dsn.Zones(address + parameters); got != want {
			t.Errorf("%s: got %q, want %q", parameters, got, want)
		}
	}
}

func TestWithoutEffect(t *testing.T) {
	t.Parallel()
	got := dsn.Unused(address + "?wait_timeout=60&interpolateParams=false&rejectReadOnly=0&innodb_lock_wait_timeout=50&loc=UTC")
	slices.Sort(got)
	if diff := cmp.Diff([]string{"innodb_lock_wait_timeout", "interpolateParams", "rejectReadOnly", "wait_timeout"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := dsn.Unused(address + "?interpolateParams=true&rejectReadOnly=1"); len(got) > 0 {
		t.Errorf("got %v without effect, want none", got)
	}
}

func TestCleartext(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"game:secret@tcp(db.example:3306)/game":             "db.example",
		"game:secret@tcp(10.0.0.7:3306)/game?tls=false":     "10.0.0.7",
		"game:se@c/ret@tcp([2001:db8::1]:3306)/game":        "2001:db8::1",
		"game:secret@tcp(db)/game":                          "db",
		"game:secret@tcp(db.example:3306)/game?tls=true":    "",
		"game:secret@tcp(db.example:3306)/game?tls=company": "",
		"game@tcp(db.example:3306)/game":                    "",
		"game:secret@tcp(127.0.0.1:3306)/game":              "",
		"game:secret@tcp([::1]:3306)/game":                  "",
		"game:secret@tcp(localhost:3306)/game":              "",
		"game:secret@unix(/run/mysqld.sock)/game":           "",
		"game:secret@/game":                                 "",
		"no dsn":                                            "",
	} {
		if got := dsn.Cleartext(text); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
