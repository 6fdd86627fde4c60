package server

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest" //nolint:depguard // only tests call this package
)

// OwnPostgres starts a Postgres for this test alone, with its data in dir on disk and a flush at each commit, and
// returns the DSN of its superuser, who has no password.
func OwnPostgres(t testing.TB, dir string) string {
	t.Helper()
	data := filepath.Join(dir, "data")
	pipelinetest.Must(t, os.MkdirAll(data, 0o700))
	as := asPostgres(t, data)
	initdb := slices.Concat(as, []string{
		program(t, "/usr/lib/postgresql/*/bin/initdb"),
		"--pgdata=" + data, "--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale",
	})
	if out, err := exec.Command(initdb[0], initdb[1:]...).CombinedOutput(); err != nil { //nolint:gosec,noctx // a fixed program
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	port := freePort(t)
	args := slices.Concat(as[1:], []string{program(t, "/usr/lib/postgresql/*/bin/postgres"), "-D", data, "-p", strconv.Itoa(port)})
	for _, setting := range []string{
		"listen_addresses=127.0.0.1",
		"unix_socket_directories=", // reached by TCP, as every other server of the benchmark
		"fsync=on", "synchronous_commit=on",
		"shared_buffers=4GB", "max_wal_size=4GB", // no less than MySQL has
		"max_connections=200", // producer and worker with 64 each
	} {
		args = append(args, "-c", setting)
	}
	p := pipelinetest.Run(t, as[0], nil, args...)
	t.Cleanup(func() {
		// A fast shutdown: a killed one would leave its shared memory behind.
		_ = syscall.Kill(p.Pid(), syscall.SIGINT)
		p.Wait(t, time.Minute)
	})
	p.WaitLine(t, "database system is ready to accept connections")
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", local(port))
}

// asPostgres is the command that runs another as an ordinary user, who then owns data: Postgres refuses root. The
// capability lets that user through folders that only root may enter, as a test's are. The death signal is a fast
// shutdown, and is set here since a change of user clears the one that Run has set.
func asPostgres(t testing.TB, data string) []string {
	t.Helper()
	as := []string{program(t, "/usr/bin/setpriv"), "--pdeathsig=INT"}
	if os.Getuid() != 0 {
		return as
	}
	account, err := user.Lookup("postgres")
	pipelinetest.Must(t, err)
	uid, err := strconv.Atoi(account.Uid)
	pipelinetest.Must(t, err)
	gid, err := strconv.Atoi(account.Gid)
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, os.Chown(data, uid, gid))
	return append(as, "--reuid=postgres", "--regid=postgres", "--clear-groups",
		"--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
}
