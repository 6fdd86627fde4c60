package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

// hostName is a name that DNS may know.
var hostName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?$`)

// ErrNotPublic refuses an address.
var ErrNotPublic = errors.New("address refused")

var errURL = errors.New("must be of the form https://host/path, without a user and a fragment")

// Guard keeps requests away from addresses that are not public, except for those that it allows: by a name, which vouches for
// whatever address it has, or by an address.
type Guard struct {
	names    map[string]bool
	prefixes []netip.Prefix
	public   *ssrf.Guardian
}

// NewGuard makes a guard that allows these names, addresses and CIDRs.
func NewGuard(allow []string) (*Guard, error) {
	g := &Guard{names: map[string]bool{}}
	var v4, v6 []netip.Prefix
	for _, text := range allow {
		prefix, err := netip.ParsePrefix(text)
		if addr, addrErr := netip.ParseAddr(text); addrErr == nil {
			prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		switch name := strings.ToLower(text); {
		case err != nil && hostName.MatchString(name):
			g.names[name] = true
		case err != nil:
			return nil, fmt.Errorf("%q is no name, no address and no CIDR such as 10.0.0.0/8", text)
		case prefix.Addr().Is4():
			v4 = append(v4, prefix)
		default:
			v6 = append(v6, prefix)
		}
	}
	g.prefixes = slices.Concat(v4, v6)
	g.public = ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
	return g, nil
}

// Parse reads an endpoint's URL. Plain http goes only to a host that is allowed by its name, or to an allowed address: else
// payloads would cross the internet in the clear.
func (g *Guard) Parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return nil, errURL
	}
	if u.Scheme == "http" && !g.allows(u.Hostname()) {
		return nil, fmt.Errorf("must begin with https: http goes only to hosts that are allowed, and %s is not", u.Hostname())
	}
	return u, nil
}

// allows reports whether the host is allowed by its name, or is an allowed address.
func (g *Guard) allows(host string) bool {
	if g.names[strings.ToLower(host)] {
		return true
	}
	addr, err := netip.ParseAddr(host)
	for _, p := range g.prefixes {
		if err == nil && p.Contains(addr) {
			return true
		}
	}
	return false
}

// Control returns the check of a net.Dialer for connections to the host, or nil if its name is allowed. The check sees the
// address after DNS has answered, just before it is dialed: a name that changes its address between a look and the call gains
// nothing.
func (g *Guard) Control(host string) func(network, address string, c syscall.RawConn) error {
	if g.names[strings.ToLower(host)] {
		return nil
	}
	return func(network, address string, c syscall.RawConn) error {
		err := g.public.Safe(network, address, c)
		if errors.Is(err, ssrf.ErrProhibitedIP) {
			return fmt.Errorf("%w: it is not public, and neither it nor its name is allowed", ErrNotPublic)
		}
		return err
	}
}
