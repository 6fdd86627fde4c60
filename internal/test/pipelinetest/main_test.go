package pipelinetest_test

import (
	"os"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestMain(m *testing.M) {
	pipelinetest.Refuse() // how servers start is what is tested here
	os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines()))
}
