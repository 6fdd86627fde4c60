package chaos_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestMain(m *testing.M) {
	os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines(
		// A connection that is closed with bytes on their way through the proxy leaves this behind; toxiproxy v2.5.0 does
		// not end it.
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
	)))
}
