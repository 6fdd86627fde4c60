package vitess_test

import (
	"database/sql"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	_ "github.com/go-sql-driver/mysql" // for database/sql

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// TestOnVitess runs the tests whose promises rest on the SQL server, and the game with workers that are killed. Each schema of
// theirs is an unsharded keyspace.
func TestOnVitess(t *testing.T) {
	addr := startVitess(t)
	t.Setenv(lentMySQL, addr)
	t.Run("store", func(t *testing.T) {
		goTest(t, addr, "-run", "^(TestConformance|TestManyPauses|TestKeyspaceTarget)$/.*/^mysql", "./internal/store")
	})
	t.Run("console", func(t *testing.T) { goTest(t, addr, "-run", "^TestConformance$", "./pkg/console/internal/views") })
	t.Run("protocol", func(t *testing.T) { goTest(t, addr, "./internal/test/protocoltest") })
	t.Run("game", game)
}

// startVitess starts a vtgate with its tablets before a MySQL, and returns its address.
func startVitess(t *testing.T) string {
	t.Helper()
	// vtcombo refuses to run as root, and nobody may not read root's folders.
	dir, err := os.MkdirTemp("", "duetime-vitess-")
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	pipelinetest.Must(t, os.Chmod(dir, 0o777))
	// By its socket: where a MySQL has a host, vtcombo wants replicas to follow it.
	socket := filepath.Join(dir, "mysql.sock")
	server := pipelinetest.OwnMySQL(t, "--socket="+socket)
	below, err := sql.Open("mysql", "root@tcp("+server.Addr()+")/")
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = below.Close() })
	// Sessions without a schema want one keyspace that is there.
	_, err = below.ExecContext(t.Context(), "CREATE DATABASE vt_first_0")
	pipelinetest.Must(t, err)
	binary := filepath.Join(dir, "vtcombo")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "vitess.io/vitess/go/cmd/vtcombo").CombinedOutput()
	if err != nil {
		t.Fatalf("build vtcombo: %v\n%s", err, out)
	}
	own := freePort(t)
	args := []string{
		"--proto-topo", `keyspaces:{name:"first" shards:{name:"0"}} cells:"test"`, "--tablet-refresh-interval", "100ms",
		"--schema-dir", dir, "--dbddl-plugin", "vttest", "--mysql-auth-server-impl", "none",
		"--mysql-server-bind-address", "127.0.0.1", "--mysql-server-port", strconv.Itoa(own), "--db-socket", socket,
		"--queryserver-config-transaction-cap", "200", "--queryserver-config-pool-size", "200",
	}
	for _, role := range []string{"app", "dba", "appdebug", "allprivs", "repl", "filtered"} {
		args = append(args, "--db-"+role+"-user", "root", "--db-"+role+"-use-ssl=false")
	}
	if os.Getuid() == 0 {
		binary, args = "/usr/bin/setpriv", append([]string{"--reuid=65534", "--clear-groups", "--no-new-privs", binary}, args...)
	}
	pipelinetest.Run(t, binary, []string{"VTDATAROOT=" + dir, "HOME=" + dir}, args...)
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(own))
	db, err := sql.Open("mysql", "root@tcp("+addr+")/")
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	pipelinetest.Await(t, "vtgate to answer", func() bool { return db.PingContext(t.Context()) == nil })
	return addr
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	pipelinetest.Must(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}
