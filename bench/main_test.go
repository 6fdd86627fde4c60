package bench_test

import (
	"os"
	"testing"

	"github.com/duetime/duetime/internal/pipelinetest"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m)) }
