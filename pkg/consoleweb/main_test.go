package consoleweb_test

import (
	"os"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

// Charge is the payload of a task that takes a payment.
type Charge struct {
	Cents int `json:"cents"`
}

var charge = task.NewKind[Charge]("order.charge", task.Queue("payments"), task.MaxAttempts(1))
