package config

import (
	"strings"
	"testing"
	"time"
)

// Kinds without a time of their own have the general one, and so has everything where the section is empty.
func TestRetentionByKind(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		shown                string
		ping, bill, shortest time.Duration
	}{
		"":                               {"{}", 3 * time.Hour, 3 * time.Hour, 3 * time.Hour},
		"retention_by_kind:":             {"{}", 3 * time.Hour, 3 * time.Hour, 3 * time.Hour},
		"retention_by_kind: {}":          {"{}", 3 * time.Hour, 3 * time.Hour, 3 * time.Hour},
		"retention_by_kind: {bill: 90h}": {"{bill: 90h}", 3 * time.Hour, 90 * time.Hour, 3 * time.Hour},
		"retention_by_kind: {ping: 10m, bill: 90h}": {"{bill: 90h, ping: 10m}", 10 * time.Minute, 90 * time.Hour, 10 * time.Minute},
	} {
		c, err := parse([]byte("daemon:\n  retention: 3h\n  "+text), nil)
		if err != nil {
			t.Fatal(err)
		}
		d := c.Daemon
		if ping, bill, shortest := d.RetentionOf("ping"), d.RetentionOf("bill"), d.ShortestRetention(); ping != want.ping || bill != want.bill || shortest != want.shortest {
			t.Errorf("%q: ping %v, bill %v, shortest %v; want %+v", text, ping, bill, shortest, want)
		}
		if shown := "daemon.retention_by_kind: " + want.shown + "\n"; !strings.Contains(c.String(), shown) {
			t.Errorf("%q is not shown as %s", text, shown)
		}
	}
}
