package main_test

import (
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestConfigCheckServers(t *testing.T) {
	t.Parallel()
	d := unmigrated(t)
	got := d.wantCode(t, 0, "config", "check", "--servers")
	product := pipelinetest.MySQL(t).Version(t)
	if want := "mysql is " + product + "\nmysql is right\nredis is right\nkafka is right\nzookeeper is right\n"; got.out != want {
		t.Errorf("said %q, want %q", got.out, want)
	}

	hostile := pipelinetest.OwnMySQL(t, "--log-bin=bin", "--server-id=1", "--binlog-format=STATEMENT")
	d.env = append(d.env, "DUETIME_MYSQL__DSN="+hostile.NewSchema(t))
	for _, args := range [][]string{{"config", "check", "--servers"}, {"migrate", "up"}} {
		if got := d.wantCode(t, 1, args...); !strings.Contains(got.err, "binlog_format is STATEMENT, and must be ROW or MIXED") {
			t.Errorf("%v: said %q, want the setting's name", args, got.err)
		}
	}
	d.env = append(d.env, "DUETIME_MYSQL__DSN=root@tcp(127.0.0.1:1)/x")
	if got := d.wantCode(t, 2, "config", "check", "--servers"); !strings.Contains(got.out, "kafka is right") {
		t.Errorf("said %q, want the others told though one is away", got.out)
	}
	got = d.run(t, away(t, "ZOOKEEPER__SERVERS"), "config", "check", "--servers")
	if got.code != 2 || !strings.Contains(got.err, "zookeeper") || strings.Contains(got.out, "zookeeper") {
		t.Errorf("exit code %d, said %q and %q, want ZooKeeper named as away", got.code, got.out, got.err)
	}
}

func TestConfigCheckTLS(t *testing.T) {
	t.Parallel()
	d := unmigrated(t)
	for dsn, want := range map[string]struct {
		code int
		says string
	}{
		"u:p@tcp(db.example:3306)/x?tls=skip-verify": {1, "certificates are always checked"},
		"u:p@tcp(db.example:3306)/x?tls=preferred":   {1, "certificates are always checked"},
		"u:p@tcp(db.example:3306)/x":                 {0, "warning: mysql.dsn: the password travels to db.example without TLS"},
		"u:p@tcp(db.example:3306)/x?tls=true":        {0, ""},
		"u:p@tcp(127.0.0.1:3306)/x":                  {0, ""},
	} {
		got := d.run(t, []string{"DUETIME_MYSQL__DSN=" + dsn}, "config", "check")
		if got.code != want.code || !strings.Contains(got.err, want.says) || want.says == "" && got.err != "" || strings.Contains(got.err, "u:p@") {
			t.Errorf("%s: exit code %d and %q, want %d and %q", dsn, got.code, got.err, want.code, want.says)
		}
	}
}
