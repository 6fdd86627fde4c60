package chaos_test

import (
	"os"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestMain(m *testing.M) {
	os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines()))
}
