package pipelinetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// product is one of the SQL servers that the tests run on.
type product struct {
	name                                        string                                             // as DUETIME_TEST_SQL names it
	program                                     func() (string, error)                             // the server's path
	first                                       []string                                           // arguments that must come first
	redoLog                                     string                                             // the argument that sets the size of the redo log
	isolation                                   string                                             // the variable with the isolation level of a session
	noTLS, withTLS                              []string                                           // arguments of a server without and with encrypted links
	lockWaits, rowLocks, idleLocks, connections string                                             // see locks.go
	install                                     func(path string, args []string, dir string) error // fills an empty data folder
}

var products = map[string]product{
	"mysql9": {
		program: fetched("sid-mysql-server-core", "mysqld"), install: initialize,
		redoLog: "--innodb-redo-log-capacity=", isolation: "transaction_isolation",
		noTLS: []string{"--tls-version="}, withTLS: []string{"--tls-version=TLSv1.2,TLSv1.3"},
		lockWaits: mysqlWaits, rowLocks: mysqlLocks, idleLocks: mysqlIdle, connections: mysqlConnections,
	},
	"mysql8": {
		program: fetched("mysql-8.0.15", "mysqld"), install: initialize,
		redoLog: "--innodb-log-file-size=", isolation: "transaction_isolation",
		noTLS: []string{"--ssl=OFF"}, withTLS: []string{"--ssl=ON"},
		lockWaits: mysqlWaits, rowLocks: mysqlLocks, idleLocks: mysqlIdle, connections: mysqlConnections,
	},
	"mariadb": {
		program: installed("mariadbd"), first: []string{"--no-defaults"}, install: installMariaDB,
		redoLog: "--innodb-log-file-size=", isolation: "tx_isolation",
		lockWaits: mariadbWaits, rowLocks: mariadbLocks, idleLocks: mariadbIdle, connections: mariadbConnections,
	},
}

// RedoLog is the argument of StartMySQL and OwnMySQL that sets the size of the redo log, such as 2G.
func RedoLog(t testing.TB, size string) string {
	t.Helper()
	return chosen(t).redoLog + size
}

// IsolationVariable names the variable with the isolation level of a session, which MariaDB calls as MySQL did before 8.0.
func IsolationVariable(t testing.TB) string {
	t.Helper()
	return chosen(t).isolation
}

func chosen(t testing.TB) product {
	t.Helper()
	p, err := chosenProduct()
	Must(t, err)
	return p
}

// SQL names the server that StartMySQL starts, as DUETIME_TEST_SQL does.
func SQL() (string, error) {
	p, err := chosenProduct()
	return p.name, err
}

// chosenProduct is the server that DUETIME_TEST_SQL names, or else today's MySQL, or else the oldest one that we support.
func chosenProduct() (product, error) {
	name := os.Getenv("DUETIME_TEST_SQL")
	if name == "" {
		name = "mysql9"
		if _, err := products[name].program(); err != nil {
			name = "mysql8"
		}
	}
	p, known := products[name]
	if !known {
		return p, fmt.Errorf("DUETIME_TEST_SQL is %q, and must be mysql9, mysql8 or mariadb", name)
	}
	p.name = name
	return p, nil
}

// args are the arguments of a server and of its installation.
func (p product) args() []string {
	args := slices.Clone(p.first)
	if os.Getuid() == 0 {
		args = append(args, "--user=root") // it wants to hear that before it runs as root
	}
	return append(args, p.redoLog+"32M")
}

func installed(name string) func() (string, error) {
	return func() (string, error) { return program(name) }
}

// fetched finds a server that scripts/mysql/fetch or scripts/sid/fetch put into the cache.
func fetched(folder, name string) func() (string, error) {
	return func() (string, error) {
		cache, err := cacheFolder()
		if err != nil {
			return "", err
		}
		path := filepath.Join(cache, folder, name)
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s is not fetched: run ./scripts/test (or ./scripts/install)", folder)
		}
		return path, nil
	}
}

// initialize fills a data folder for a MySQL. The user root must be let in from 127.0.0.1, which without name resolution is
// not localhost.
func initialize(path string, args []string, dir string) error {
	first := dir + ".sql"
	defer func() { _ = os.Remove(first) }()
	if err := os.WriteFile(first, []byte("RENAME USER root@localhost TO root@'%';\n"), 0o600); err != nil {
		return fmt.Errorf("write the first statement: %w", err)
	}
	return fillBy(path, append(args, "--initialize-insecure", "--datadir="+dir, "--init-file="+first))
}

func installMariaDB(_ string, args []string, dir string) error {
	path, err := program("mariadb-install-db")
	if err != nil {
		return err
	}
	return fillBy(path, append(args, "--datadir="+dir, "--tmpdir="+dir, "--auth-root-authentication-method=normal", "--skip-test-db",
		"--skip-name-resolve"))
}

func fillBy(path string, args []string) error {
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil { //nolint:gosec,noctx // a fixed program
		return fmt.Errorf("%s: %w\n%s", path, err, out)
	}
	return nil
}
