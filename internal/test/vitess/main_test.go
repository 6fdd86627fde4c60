package vitess_test

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m)) }

// lentMySQL is the variable by which tests take a server that runs already.
const lentMySQL = "DUETIME_TEST_MYSQL_ADDR"

// goTest runs tests of the product on the server at this address.
func goTest(t *testing.T, addr string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", slices.Concat([]string{"test", "-count=1", "-p=1"}, args)...)
	cmd.Dir, cmd.Env = "../../..", append(os.Environ(), lentMySQL+"="+addr)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go test %v: %v\n%s", args, err, out)
	}
}
