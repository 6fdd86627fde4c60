// Package loopback tells the names of this machine that no other machine can use.
package loopback

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Is reports whether a host, with or without a port, is localhost or an address of loopback. It looks up no name.
func Is(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}

// Sent reports whether a request comes from this machine and names it by loopback. The Host header alone is whatever a client writes;
// the sender alone may be the browser of somebody here, whom a web site has led here by a name of its own.
func Sent(r *http.Request) bool {
	_, socket := r.Context().Value(http.LocalAddrContextKey).(*net.UnixAddr)
	return Is(r.Host) && (socket || Is(r.RemoteAddr))
}
