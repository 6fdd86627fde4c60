package store_test

import (
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// No process waits for a server to accept a bad parameter: the error names the key.
func TestRefusedParameterNamesItsKey(t *testing.T) {
	t.Parallel()
	dsn := pipelinetest.MySQL(t).NewSchema(t)
	for _, parameter := range []string{"time_zone=%27Nowhere%2FAtall%27", "no_such_variable=1", "lock_wait_timeout=%27soon%27", "charset=klingon"} {
		s := opened(t, dsn+"?"+parameter, store.Options{})
		if err := store.Refusal(s.Ping(t.Context())); err == nil || !strings.Contains(err.Error(), "mysql.dsn: ") {
			t.Errorf("%s: got %v, want a refusal that names mysql.dsn", parameter, err)
		}
	}
}
