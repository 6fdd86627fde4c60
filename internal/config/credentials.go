package config

import (
	"fmt"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// minTokenChars is the length from which a token can't be guessed.
const minTokenChars = 16

// secret is given by a key, or by the file that another key names.
type secret struct {
	key   string // key+"_file" names the file
	value Secret
	file  string
}

// setKey returns the key that is set.
func (s secret) setKey() string {
	if s.file != "" {
		return s.key + "_file"
	}
	return s.key
}

// credential is a secret and the user to whom it belongs.
type credential struct {
	userKey, user string // empty for a token
	needsUser     bool
	secret
}

func (c Config) credentials() []credential {
	return []credential{
		{"redis.username", c.Redis.Username, false, c.Redis.secret()},
		{"redis.sentinel_username", c.Redis.SentinelUsername, false, c.Redis.sentinelSecret()},
		{"kafka.sasl.username", c.Kafka.SASL.Username, true, c.Kafka.SASL.secret()},
		{"zookeeper.username", c.ZooKeeper.Username, true, c.ZooKeeper.secret()},
		{"", "", false, c.PProf.secret()},
	}
}

func (r Redis) secret() secret { return secret{"redis.password", r.Password, r.PasswordFile} }
func (r Redis) sentinelSecret() secret {
	return secret{"redis.sentinel_password", r.SentinelPassword, r.SentinelPasswordFile}
}
func (s SASL) secret() secret { return secret{"kafka.sasl.password", s.Password, s.PasswordFile} }

func (z ZooKeeper) secret() secret { return secret{"zookeeper.password", z.Password, z.PasswordFile} }
func (p PProf) secret() secret     { return secret{"pprof.token", p.Token, p.TokenFile} }

// Secret returns the password, from its file if it has one.
func (r Redis) Secret() (Secret, error) { return r.secret().read() }

// SentinelSecret returns the password for the sentinels, from its file if it has one.
func (r Redis) SentinelSecret() (Secret, error) { return r.sentinelSecret().read() }

// Secret returns the password, from its file if it has one.
func (s SASL) Secret() (Secret, error) { return s.secret().read() }

// Secret returns the password, from its file if it has one.
func (z ZooKeeper) Secret() (Secret, error) { return z.secret().read() }

// Secret returns the token, from its file if it has one; empty is off.
func (p PProf) Secret() (Secret, error) {
	token, err := p.secret().read()
	if err == nil && p.TokenFile != "" && len(token) < minTokenChars {
		err = fmt.Errorf("pprof.token_file: holds fewer than %d characters", minTokenChars)
	}
	return token, err
}

// Secret returns the DSN with its password, from its file if it has one.
func (m MySQL) Secret() (DSN, error) {
	if m.PasswordFile == "" {
		return m.DSN, nil
	}
	password, err := secret{key: "mysql.password", file: m.PasswordFile}.read()
	if err != nil {
		return "", err
	}
	dsn, err := mysql.ParseDSN(string(m.DSN))
	if err != nil {
		return "", errDSN // the driver's own error may quote the text
	}
	dsn.Passwd = string(password)
	return DSN(dsn.FormatDSN()), nil
}

// read returns the text of the file without the line break at its end, or the value where there is no file.
func (s secret) read() (Secret, error) {
	if s.file == "" {
		return s.value, nil
	}
	b, err := os.ReadFile(s.file)
	if err != nil {
		return "", fmt.Errorf("%s_file: %w", s.key, err)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if text == "" {
		return "", fmt.Errorf("%s_file: %s is empty", s.key, s.file)
	}
	return Secret(text), nil
}

// readSecrets reads every file that holds a secret, so that a missing file shows at the start.
func (c Config) readSecrets() error {
	var p Problems
	for _, read := range []func() error{
		func() error { _, err := c.MySQL.Secret(); return err },
		func() error { _, err := c.Redis.Secret(); return err },
		func() error { _, err := c.Redis.SentinelSecret(); return err },
		func() error { _, err := c.Kafka.SASL.Secret(); return err },
		func() error { _, err := c.ZooKeeper.Secret(); return err },
		func() error { _, err := c.PProf.Secret(); return err },
	} {
		if err := read(); err != nil {
			p.Addf("%v", err)
		}
	}
	return p.orNil()
}

// checkSecrets refuses a secret that is given twice or without its user, and a user without a secret: clients would
// ignore either.
func (c Config) checkSecrets(p *Problems) {
	for _, s := range c.credentials() {
		given := s.value != "" || s.file != ""
		switch {
		case s.value != "" && s.file != "":
			p.Addf("%s_file: has no use beside %s", s.key, s.key)
		case s.user != "" && !given:
			p.Addf("%s: %q needs a %s or a %s_file", s.userKey, s.user, s.key, s.key)
		case s.user == "" && given && s.needsUser:
			p.Addf("%s: is needed with %s", s.userKey, s.setKey())
		}
	}
	if strings.Contains(c.ZooKeeper.Username, ":") {
		p.Addf("zookeeper.username: %q holds a colon, which ends a name in the scheme digest", c.ZooKeeper.Username)
	}
	if token := c.PProf.Token; token != "" && len(token) < minTokenChars {
		p.Addf("pprof.token: has fewer than %d characters", minTokenChars)
	}
	if dsn, err := mysql.ParseDSN(string(c.MySQL.DSN)); err == nil && dsn.Passwd != "" && c.MySQL.PasswordFile != "" {
		p.Addf("mysql.password_file: has no use beside the password in mysql.dsn")
	}
}

// checkTLS refuses certificates that no link uses, and TLS settings of the MySQL driver that would replace ours.
func (c Config) checkTLS(p *Problems) {
	for _, link := range []struct {
		key string
		TLS
	}{{"mysql", c.MySQL.TLS}, {"redis", c.Redis.TLS}, {"kafka", c.Kafka.TLS}, {"zookeeper", c.ZooKeeper.TLS}} {
		switch {
		case (link.CertFile == "") != (link.KeyFile == ""):
			p.Addf("%s.tls.cert_file: goes with %s.tls.key_file", link.key, link.key)
		case link.CertFile != "" && link.CAFile == "":
			p.Addf("%s.tls.cert_file: needs a %s.tls.ca_file", link.key, link.key)
		}
	}
	dsn, err := mysql.ParseDSN(string(c.MySQL.DSN))
	if err != nil || c.MySQL.TLS.CAFile == "" {
		return
	}
	if dsn.TLSConfig != "" {
		p.Addf("mysql.tls.ca_file: has no use beside the parameter tls of mysql.dsn")
	}
	if dsn.Net != "tcp" {
		p.Addf("mysql.tls.ca_file: has no use on mysql.dsn's %s", dsn.Net)
	}
}
