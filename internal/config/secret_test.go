package config

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "duetime.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// armed is a Config with a secret, hunter2, in every key that can hold one.
func armed(dsn string) Config {
	c := Default()
	const password = "hunter2 is a password"
	c.MySQL.DSN, c.Redis.Password, c.Kafka.SASL.Password = DSN(dsn), password, password
	c.ZooKeeper.Password, c.PProf.Token = password, password
	return c
}

// TestSecretsAreNeverPrinted shows a Config, its sections and its secrets in every way of showing a value.
func TestSecretsAreNeverPrinted(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"root:hunter2@tcp(h)/db", "root:hunter2:@/hunter2@tcp(h)/db", "root:hunter2", "root:hunter2/db", "a:hunter2@x",
	} {
		c := armed(dsn)
		for _, v := range []any{
			c, &c, c.MySQL, &c.MySQL, c.Redis, c.Kafka, c.Kafka.SASL, c.ZooKeeper, c.PProf, &c.PProf,
			c.MySQL.DSN, &c.MySQL.DSN, c.Redis.Password,
			[]Secret{c.PProf.Token},
			map[string]any{"x": c.Redis},
		} {
			for way, text := range shown(t, v) {
				if strings.Contains(text, "hunter2") || strings.Contains(text, fmt.Sprintf("%x", "hunter2")) {
					t.Errorf("%T under %s with %s: %s", v, way, dsn, text)
				}
			}
		}
	}
}

// A password that YAML takes for something else is not in the error.
func TestSecretsAreNotInErrors(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"*hunter2", "!!float hunter2", "!!int 'hunter2'", "&a *hunter2", "{hunter2", "[hunter2", "'hunter2", "@hunter2", "`hunter2"} {
		_, err := parse([]byte("redis:\n  password: "+value+"\n"), nil)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// shown formats v in every way.
func shown(t *testing.T, v any) map[string]string {
	t.Helper()
	all := map[string]string{"print": fmt.Sprint(v), "error": fmt.Errorf("x: %v", v).Error(), "diff": cmp.Diff(fmt.Sprint(v), "")}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%t", "%f", "%T", "%c", "%U"} {
		all[verb] = fmt.Sprintf(verb, v)
	}
	for name, marshal := range map[string]func(any) ([]byte, error){"json": json.Marshal, "yaml": yaml.Marshal, "xml": xml.Marshal} {
		b, err := marshal(v)
		if err != nil && name != "xml" { // xml can't encode maps
			t.Errorf("%s of %T: %v", name, v, err)
		}
		all[name] = string(b)
	}
	if l, ok := v.(slog.LogValuer); ok {
		all["log value"] = l.LogValue().String()
	}
	var logged bytes.Buffer
	for _, h := range []slog.Handler{slog.NewJSONHandler(&logged, nil), slog.NewTextHandler(&logged, nil)} {
		slog.New(h).Info("config", slog.Any("v", v))
		slog.New(h).With("v", v).WithGroup("g").Info("config", "v", v)
	}
	all["slog"] = logged.String()
	return all
}

func TestSecretsAreShownToBeThere(t *testing.T) {
	t.Parallel()
	c := armed("root:p@tcp(h)/db")
	for _, want := range []string{"mysql.dsn: root:***@tcp(h)/db\n", "redis.password: ***\n", "pprof.token: ***\n"} {
		if got := c.String(); !strings.Contains(got, want) {
			t.Errorf("got %s, want a line %s", got, want)
		}
	}
	if got := Default().String(); !strings.Contains(got, "redis.password: \n") {
		t.Errorf("got %s, want no password shown as such", got)
	}
}

// fileKeys are the keys that name a file with a secret, and the methods that return the secret.
var fileKeys = map[string]func(Config) (string, error){
	"mysql.password_file":          func(c Config) (string, error) { s, err := c.MySQL.Secret(); return string(s), err },
	"redis.password_file":          func(c Config) (string, error) { s, err := c.Redis.Secret(); return string(s), err },
	"redis.sentinel_password_file": func(c Config) (string, error) { s, err := c.Redis.SentinelSecret(); return string(s), err },
	"kafka.sasl.password_file":     func(c Config) (string, error) { s, err := c.Kafka.SASL.Secret(); return string(s), err },
	"zookeeper.password_file":      func(c Config) (string, error) { s, err := c.ZooKeeper.Secret(); return string(s), err },
	"pprof.token_file":             func(c Config) (string, error) { s, err := c.PProf.Secret(); return string(s), err },
}

// with sets a key that names a file, and the user that this secret needs.
func with(key, path string) []string {
	variable := func(key string) string {
		return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", levelMark)) + "="
	}
	environ := []string{variable(key) + path}
	if user := strings.TrimSuffix(key, "password_file") + "username"; newSchema().fields[user].key != "" {
		environ = append(environ, variable(user)+"u")
	}
	if strings.HasPrefix(key, "redis.sentinel_") {
		environ = append(environ, variable("redis.mode")+"sentinel", variable("redis.master_name")+"m")
	}
	return environ
}

// TestSecretsFromFiles sets each secret by its file, as orchestrators do, and fails if it misses a file key.
func TestSecretsFromFiles(t *testing.T) {
	t.Parallel()
	const password = `p@ss:w/rd'"` + "\\ with 16"
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, key := range Keys() {
		if (strings.HasSuffix(key, "password_file") || strings.HasSuffix(key, "token_file")) && fileKeys[key] == nil {
			t.Errorf("%s is not tried", key)
		}
	}
	for key, secret := range fileKeys {
		c, err := Load("none.yaml", false, with(key, path))
		if err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		got, err := secret(c)
		if err != nil || !strings.Contains(got, password) || strings.Contains(got, "\n") {
			t.Errorf("%s: got %q, %v", key, got, err)
		}
		if strings.Contains(c.String(), password) {
			t.Errorf("%s: the secret is printed", key)
		}
	}
	c := Default()
	c.MySQL.DSN, c.MySQL.PasswordFile = "u@tcp(h:1)/d?x=y", path
	if got, err := c.MySQL.Secret(); err != nil || string(got) != "u:"+password+"@tcp(h:1)/d?x=y" {
		t.Errorf("got the DSN %q, %v", string(got), err)
	}
}

func TestFilesOfSecretsThatCannotBe(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for key := range fileKeys {
		for path, want := range map[string]string{empty: "is empty", empty + ".absent": "no such file"} {
			_, err := Load("none.yaml", false, with(key, path))
			if err == nil || !strings.Contains(err.Error(), key+":") || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want it to name the key and %s", key, err, want)
			}
		}
	}
	short := writeFile(t, "too short")
	if _, err := Load("none.yaml", false, []string{"DUETIME_PPROF__TOKEN_FILE=" + short}); err == nil || !strings.Contains(err.Error(), "pprof.token_file: holds fewer") {
		t.Errorf("short token: %v", err)
	}
}

// TestCredentialsThatCannotWork wants one line that names the key, and contains no secret.
func TestCredentialsThatCannotWork(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		"mysql.password_file: has no use beside": func(c *Config) { c.MySQL.DSN, c.MySQL.PasswordFile = "u:hunter2@tcp(h)/d", "f" },
		"redis.password_file: has no use beside": func(c *Config) { c.Redis.Password, c.Redis.PasswordFile = "hunter2", "f" },
		"redis.sentinel_password_file: has no use beside": func(c *Config) {
			c.Redis.Mode, c.Redis.MasterName, c.Redis.SentinelPassword, c.Redis.SentinelPasswordFile = "sentinel", "m", "hunter2", "f"
		},
		"redis.sentinel_password: has no use with redis.mode standalone": func(c *Config) { c.Redis.SentinelPassword = "hunter2" },
		"kafka.sasl.password_file: has no use": func(c *Config) {
			c.Kafka.SASL.Username, c.Kafka.SASL.Password, c.Kafka.SASL.PasswordFile = "u", "hunter2", "f"
		},
		"zookeeper.password_file: has no use": func(c *Config) {
			c.ZooKeeper.Username, c.ZooKeeper.Password, c.ZooKeeper.PasswordFile = "u", "hunter2", "f"
		},
		"pprof.token_file: has no use beside":               func(c *Config) { c.PProf = PProf{"hunter2 hunter2 hunter2", "f"} },
		"pprof.token: has fewer than 16 characters":         func(c *Config) { c.PProf.Token = "hunter2" },
		`kafka.sasl.username: "u" needs a`:                  func(c *Config) { c.Kafka.SASL.Username = "u" },
		"kafka.sasl.username: is needed with kafka":         func(c *Config) { c.Kafka.SASL.Password = "hunter2" },
		"is needed with zookeeper.password_file":            func(c *Config) { c.ZooKeeper.PasswordFile = "f" },
		`zookeeper.username: "u:v" holds a colon`:           func(c *Config) { c.ZooKeeper.Username, c.ZooKeeper.Password = "u:v", "hunter2" },
		"mysql.tls.cert_file: goes with mysql.tls.key_file": func(c *Config) { c.MySQL.TLS = TLS{CAFile: "a", CertFile: "c"} },
		"redis.tls.cert_file: goes with redis.tls.key_file": func(c *Config) { c.Redis.TLS = TLS{CAFile: "a", KeyFile: "k"} },
		"kafka.tls.cert_file: needs a kafka.tls.ca_file":    func(c *Config) { c.Kafka.TLS = TLS{CertFile: "c", KeyFile: "k"} },
		"beside the parameter tls of mysql.dsn":             func(c *Config) { c.MySQL.DSN, c.MySQL.TLS.CAFile = "u:hunter2@tcp(h)/d?tls=true", "a" },
		"mysql.tls.ca_file: has no use on mysql.dsn's unix": func(c *Config) { c.MySQL.DSN, c.MySQL.TLS.CAFile = "u:hunter2@unix(/s)/d", "a" },
	} {
		c := Default()
		change(&c)
		err := c.Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		} else if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), ";") {
			t.Errorf("got %v, want one problem and no password", err)
		}
	}
	c := Default()
	system := TLS{CAFile: "system", CertFile: "c", KeyFile: "k"}
	c.MySQL.TLS, c.Redis.TLS, c.Kafka.TLS, c.ZooKeeper.TLS = system, system, system, system
	c.Kafka.SASL, c.ZooKeeper.Username, c.ZooKeeper.PasswordFile = SASL{Mechanism: "SCRAM-SHA-256", Username: "u", Password: "p"}, "u", "f"
	c.MySQL.PasswordFile, c.Redis.PasswordFile, c.PProf.TokenFile = "f", "f", "f"
	if err := c.Validate(); err != nil {
		t.Errorf("all of it together: %v", err)
	}
}
