package loopback

import "testing"

func TestIs(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost:8091": true, "127.0.0.1": true, "127.9.9.9:1": true,
		"::1": true, "[::1]": true, "[::1]:1": true, "::ffff:127.0.0.1": true, "[::ffff:127.0.0.1]:1": true,
		"": false, ":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1": false, "2130706433": false, "127.1": false,
		"duetime.example:1": false, "localhost.example:1": false, "localhost.": false, "127.0.0.1.example": false,
	} {
		if got := Is(host); got != want {
			t.Errorf("%q: got %v", host, got)
		}
	}
}
