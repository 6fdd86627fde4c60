package pipelinetest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// MySQLServer is a MySQL or MariaDB whose user root has no password. Which one it is, DUETIME_TEST_SQL says.
type MySQLServer struct {
	*Server

	product product
}

// StartMySQL starts a server in dir (empty: a folder of the run's own) with further arguments of its command line.
func StartMySQL(dir string, args ...string) (*MySQLServer, error) {
	p, err := chosenProduct()
	if err != nil {
		return nil, err
	}
	s, err := startServer(dir, recipe{
		name:    p.name,
		ports:   1,
		fill:    func(data string, _ []*portLock) error { return p.fill(data) },
		command: func(data string, ports []*portLock) (*exec.Cmd, error) { return p.command(data, ports, args) },
		ready:   mysqlReady,
	})
	if err != nil {
		return nil, err
	}
	return &MySQLServer{s, p}, nil
}

// Product names the server as DUETIME_TEST_SQL does: mysql9, mysql8 or mariadb.
func (m *MySQLServer) Product() string { return m.product.name }

// fill copies a data folder that was made once for all: a tenth of a second instead of seconds.
func (p product) fill(data string) error {
	path, err := p.program()
	if err != nil {
		return err
	}
	version, err := exec.Command(path, append(slices.Clone(p.first), "--version")...).Output() //nolint:gosec,noctx // a fixed program
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w", p.name, err)
	}
	sum := sha256.Sum256(append(version, strings.Join(p.args(), " ")...))
	template, err := cached(p.name+"-"+hex.EncodeToString(sum[:6]), func(dir string) error { return p.install(path, p.args(), dir) })
	if err != nil {
		return err
	}
	if err := os.CopyFS(data, os.DirFS(template)); err != nil {
		return fmt.Errorf("copy the template: %w", err)
	}
	_ = os.Remove(filepath.Join(data, "auto.cnf")) // the server's own name, which must differ from a replica's
	return nil
}

func (p product) command(data string, ports []*portLock, extra []string) (*exec.Cmd, error) {
	path, err := p.program()
	if err != nil {
		return nil, err
	}
	side := filepath.Dir(data)
	args := p.args()
	// A tmpdir of its own: a server that starts removes what it finds there of an earlier one, or of another one.
	args = append(args, "--datadir="+data, "--tmpdir="+side, "--socket="+filepath.Join(side, "s.sock"), "--pid-file="+filepath.Join(side, "pid"),
		"--port="+strconv.Itoa(ports[0].port), "--bind-address=127.0.0.1", "--skip-name-resolve", "--max-connections=500",
		"--innodb-buffer-pool-size=64M", "--performance-schema-instrument=%=OFF", "--skip-log-bin")
	args = append(args, p.noTLS...)
	return exec.Command(path, append(args, extra...)...), nil //nolint:gosec,noctx // a fixed program, ended by kill
}

func mysqlReady(ctx context.Context, addr string) error {
	db, err := openAdmin(addr)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if err := db.PingContext(ctx); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	return nil
}

// openAdmin opens a silent connection pool without a schema.
func openAdmin(addr string) (*sql.DB, error) {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.Logger = "root", "tcp", addr, &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("open mysql: %w", err)
	}
	return sql.OpenDB(connector), nil
}

// NewSchema makes an empty schema with a random name and returns its DSN, root@tcp(127.0.0.1:port)/name. The schema
// is dropped after the test. For a connection by way of a Proxy replace Addr in it with the proxy's.
func (m *MySQLServer) NewSchema(t testing.TB) string {
	t.Helper()
	name := "t_" + strings.ToLower(rand.Text()[:16])
	Must(t, m.admin("CREATE DATABASE "+name))
	t.Cleanup(func() {
		if m.Running() {
			// Best effort: a test may leave the server frozen or a transaction open.
			_ = m.admin("SET lock_wait_timeout = 1", "DROP DATABASE "+name)
		}
	})
	return "root@tcp(" + m.Addr() + ")/" + name
}

// Version returns the server's name and version, such as "MySQL 9.7.4" or "MariaDB 10.11.14".
func (m *MySQLServer) Version(t testing.TB) string {
	t.Helper()
	db, err := openAdmin(m.Addr())
	Must(t, err)
	defer func() { _ = db.Close() }()
	var version string
	Must(t, db.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&version))
	number, product, _ := strings.Cut(version, "-")
	if strings.Contains(product, "MariaDB") {
		return "MariaDB " + number
	}
	return "MySQL " + number
}

// admin runs statements on a connection of its own.
func (m *MySQLServer) admin(statements ...string) error {
	db, err := openAdmin(m.Addr())
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // they are one session's
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	// A test may have made the server's defaults hostile.
	for _, statement := range append([]string{"SET SESSION TRANSACTION READ WRITE", "SET autocommit = 1"}, statements...) {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// Numbers is a table expression with the one column seq, the numbers from first to last, for statements of tests.
func Numbers[N int | int64](first, last N) string {
	const digit = "(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 " +
		"UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9) AS d"
	sum, from := fmt.Sprintf("%d + d0.n", first), digit+"0"
	for i, unit := 1, N(10); unit <= last-first; i, unit = i+1, unit*10 {
		sum += fmt.Sprintf(" + %d * d%d.n", unit, i)
		from += fmt.Sprintf(" CROSS JOIN %s%d", digit, i)
	}
	return fmt.Sprintf("(SELECT %s AS seq FROM %s WHERE %s <= %d) AS numbers", sum, from, sum, last)
}
