package store_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/trust"
)

// TestTLS reads a server's clock under several settings: the account needs TLS.
func TestTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := pipelinetest.NewAuthority(t), pipelinetest.NewAuthority(t)
	server := pipelinetest.OwnMySQL(t, ours.SecureMySQL(t)...)
	own, root := ours.Issue(t, "client"), server.NewSchema(t)
	plain := pipelinetest.MySQL(t).NewSchema(t)
	admin, err := sql.Open("mysql", root)
	pipelinetest.Must(t, err)
	defer func() { _ = admin.Close() }()
	for _, statement := range []string{
		"CREATE USER locked@'%' IDENTIFIED BY 'right' REQUIRE SSL", "GRANT SELECT ON *.* TO locked@'%'",
		"CREATE USER certified@'%' IDENTIFIED BY 'right' REQUIRE X509", "GRANT SELECT ON *.* TO certified@'%'",
	} {
		_, err := admin.ExecContext(t.Context(), statement)
		pipelinetest.Must(t, err)
	}
	as := func(user string) string { return strings.Replace(root, "root@", user+"@", 1) }
	trusting := trust.Files{CAFile: ours.CAFile}
	for name, c := range map[string]struct {
		dsn   string
		files trust.Files
		want  string // part of the refusal; empty: no refusal
	}{
		"over TLS":                    {as("locked:right"), trusting, ""},
		"with a certificate":          {as("certified:right"), trust.Files{CAFile: ours.CAFile, CertFile: own.CertFile, KeyFile: own.KeyFile}, ""},
		"without the certificate":     {as("certified:right"), trusting, "mysql.dsn: "},
		"without TLS":                 {as("locked:right"), trust.Files{}, "mysql.dsn: "},
		"wrong password":              {as("locked:wrong"), trusting, "mysql.dsn: "},
		"another authority":           {as("locked:right"), trust.Files{CAFile: theirs.CAFile}, "mysql.tls.ca_file: "},
		"this machine's authorities":  {as("locked:right"), trust.Files{CAFile: trust.System}, "mysql.tls.ca_file: "},
		"another name":                {strings.Replace(as("locked:right"), "127.0.0.1", "localhost", 1), trusting, "mysql.tls.ca_file: "},
		"a server without TLS":        {plain, trusting, "mysql.tls.ca_file: "},
		"a fallback that the DSN has": {plain + "?allowFallbackToPlaintext=true", trusting, "mysql.tls.ca_file: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := trust.Client("mysql.tls", c.files)
			pipelinetest.Must(t, err)
			s, err := store.Open(c.dsn, store.Options{TLS: cfg})
			pipelinetest.Must(t, err)
			defer func() { _ = s.Close() }()
			err = s.Ping(t.Context())
			if c.want == "" {
				if err != nil {
					t.Errorf("got %v, want an answer", err)
				}
				wantEncrypted(t, s)
				return
			}
			refusal := store.Refusal(err)
			if refusal == nil || !strings.Contains(refusal.Error(), c.want) {
				t.Errorf("got %v, want it to be a refusal that says %s", err, c.want)
			}
		})
	}
}

func wantEncrypted(t *testing.T, s *store.Store) {
	t.Helper()
	var name, cipher string
	pipelinetest.Must(t, s.DB().QueryRowx("SHOW STATUS LIKE 'Ssl_cipher'").Scan(&name, &cipher))
	if cipher == "" {
		t.Error("the session has no cipher")
	}
}
