package webhook_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/webhook"
)

func guard(t *testing.T, allow ...string) *webhook.Guard {
	t.Helper()
	g, err := webhook.NewGuard(allow)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// dialed reports whether the guard lets a connection to a host with this address through.
func dialed(t *testing.T, g *webhook.Guard, host, addr string) bool {
	t.Helper()
	check := g.Control(host)
	if check == nil {
		return true
	}
	network := "tcp4"
	if strings.Contains(addr, ":") {
		network = "tcp6"
	}
	err := check(network, net.JoinHostPort(addr, "8443"), nil)
	if err != nil && !errors.Is(err, webhook.ErrNotPublic) {
		t.Errorf("%s: got %v, want ErrNotPublic", addr, err)
	}
	return err == nil
}

func TestOnlyPublicAddressesAreDialed(t *testing.T) {
	t.Parallel()
	g := guard(t)
	for _, addr := range []string{
		"127.0.0.1", "127.8.9.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
		"255.255.255.255", "::1", "::",
		"fe80::1", "fe80::1%lo", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::",
	} {
		if dialed(t, g, "shop.example", addr) {
			t.Errorf("%s is dialed", addr)
		}
	}
	for _, addr := range []string{"93.184.216.34", "2606:2800:220:1::1"} {
		if !dialed(t, g, "shop.example", addr) {
			t.Errorf("%s is refused", addr)
		}
	}
}

func TestAllowedNamesAndAddressesAreDialed(t *testing.T) {
	t.Parallel()
	g := guard(t, "127.0.0.1/32", "10.7.0.0/16", "fd00::/8", "192.168.9.9", "Hooks.Internal")
	for _, tt := range []struct {
		host, addr string
		want       bool
	}{
		{"a.example", "127.0.0.1", true},
		{"a.example", "127.0.0.2", false},
		{"a.example", "10.7.255.1", true},
		{"a.example", "10.8.0.1", false},
		{"a.example", "fd00::9", true},
		{"a.example", "192.168.9.9", true},
		{"a.example", "192.168.9.8", false},
		{"hooks.internal", "192.168.9.8", true},
		{"HOOKS.internal", "169.254.169.254", true},
		{"x.hooks.internal", "192.168.9.8", false},
	} {
		if got := dialed(t, g, tt.host, tt.addr); got != tt.want {
			t.Errorf("%s at %s is dialed: got %v, want %v", tt.host, tt.addr, got, tt.want)
		}
	}
}

func TestURLs(t *testing.T) {
	t.Parallel()
	g := guard(t, "10.0.0.0/8", "hooks.internal")
	for text, says := range map[string]string{
		"https://shop.example/hook?token=hunter2": "",
		"https://127.0.0.1:8443/hook":             "", // refused when it is dialed
		"http://hooks.internal:8080/a":            "",
		"http://10.1.1.1/a":                       "",
		"http://shop.example/a?token=hunter2":     "must begin with https",
		"http://127.0.0.1/a":                      "must begin with https",
		"ftp://shop.example/hunter2":              "of the form https://host/path",
		"shop.example/hunter2":                    "of the form",
		"https:///hunter2":                        "of the form",
		"https://:443/hunter2":                    "of the form",
		"https://user:hunter2@shop.example/":      "without a user",
		"https://shop.example/#hunter2":           "without a user and a fragment",
		"https://shop.example/%zz" + "hunter2":    "of the form",
	} {
		_, err := g.Parse(text)
		switch {
		case says == "" && err != nil, says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%s: got %v, want %q", text, err, says)
		case err != nil && strings.Contains(err.Error(), "hunter2"):
			t.Errorf("%s: the error repeats it: %v", text, err)
		}
	}
}

func TestWhatCannotBeAllowed(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "10.0.0.0/33", "a b", "https://shop.example", "shop.example:443", "*"} {
		if _, err := webhook.NewGuard([]string{text}); err == nil || !strings.Contains(err.Error(), `"`+text+`" is no name`) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}
