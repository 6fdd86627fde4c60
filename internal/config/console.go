package config

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/duetime/duetime/internal/loopback"
)

// Console is the section of the command duetime console, which serves the console's page.
type Console struct {
	Listen     string   `key:"listen" form:"addr" doc:"host:port of the page of duetime console; without a host it is loopback. On another address it needs users, tokens or proxies"`
	Users      Secret   `key:"users" doc:"who signs in by a password: name:role:password, parted by spaces or lines. A role is read, operate, or operate(move+cancel) with some verbs. A password has 12 characters or more, or is the hash that duetime console --hash makes of it"`
	UsersFile  string   `key:"users_file" doc:"file with the users, instead of console.users"`
	Tokens     Secret   `key:"tokens" doc:"programs that sign in by a bearer token of 16 characters or more: name:role:token, as console.users"`
	TokensFile string   `key:"tokens_file" doc:"file with the tokens, instead of console.tokens"`
	Proxies    []string `key:"proxies" doc:"addresses of proxies that sign users in, such as 10.0.0.0/8; headers of other senders count for nothing"`
	UserHeader string   `key:"user_header" doc:"header in which a proxy names the user; the proxy must replace it, whatever its clients send"`
	RoleHeader string   `key:"role_header" doc:"header in which a proxy names the role; empty is console.roles"`
	Roles      []string `key:"roles" doc:"roles of a proxy's users: user=role; *=role is for all others, who have none without it"`
	Payloads   string   `key:"payloads" doc:"who sees the payloads of tasks: read is everybody, operate hides them from the role read"`
	KeysFile   string   `key:"payload_keys_file" doc:"file with the keys of encrypted payloads, a line each: id, blank, 32 bytes in base64. The page and the tool show these payloads in clear to whom payloads are shown; empty leaves them encrypted"`
}

// Roles that console.payloads names.
const (
	payloadsRead    = "read"
	payloadsOperate = "operate"
)

// DefaultConsole returns the section for one machine: everybody on it may do everything.
func DefaultConsole() *Console {
	return &Console{
		Listen: "127.0.0.1:8090", Proxies: []string{}, UserHeader: "X-Forwarded-User", Roles: []string{}, Payloads: payloadsRead,
	}
}

// Name is the section's name.
func (*Console) Name() string { return "console" }

// Validate adds a problem for each key out of its limits.
func (c *Console) Validate(p *Problems) {
	p.CheckListen("console.listen", c.Listen)
	if !slices.Contains([]string{payloadsRead, payloadsOperate}, c.Payloads) {
		p.Addf("console.payloads: %q is neither %s nor %s", c.Payloads, payloadsRead, payloadsOperate)
	}
	for _, s := range []secret{c.users(), c.tokens()} {
		if s.value != "" && s.file != "" {
			p.Addf("%s_file: has no use beside %s", s.key, s.key)
		}
	}
	for _, text := range c.Proxies {
		if _, err := netip.ParsePrefix(text); err != nil {
			if _, err := netip.ParseAddr(text); err != nil {
				p.Addf("console.proxies: %q is no address such as 10.1.2.3 or 10.0.0.0/8", text)
			}
		}
	}
	switch {
	case len(c.Proxies) > 0 && c.UserHeader == "":
		p.Addf("console.user_header: is needed with console.proxies")
	case len(c.Proxies) > 0 && c.RoleHeader == "" && len(c.Roles) == 0:
		p.Addf("console.proxies: needs a console.role_header or console.roles")
	case len(c.Proxies) == 0 && (c.RoleHeader != "" || len(c.Roles) > 0):
		p.Addf("console.roles and console.role_header: have no use without console.proxies")
	}
	for _, text := range c.Roles {
		if user, role, found := strings.Cut(text, "="); !found || user == "" || role == "" {
			p.Addf("console.roles: %q is not of the form user=role", text)
		}
	}
}

func (c *Console) users() secret  { return secret{"console.users", c.Users, c.UsersFile} }
func (c *Console) tokens() secret { return secret{"console.tokens", c.Tokens, c.TokensFile} }

// UsersSecret returns the users, from their file if there is one.
func (c *Console) UsersSecret() (Secret, error) { return c.users().read() }

// TokensSecret returns the tokens, from their file if there is one.
func (c *Console) TokensSecret() (Secret, error) { return c.tokens().read() }

// HidesPayloads reports whether payloads are hidden from the role read.
func (c *Console) HidesPayloads() bool { return c.Payloads == payloadsOperate }

// OnLoopback reports whether only this machine reaches the address. A name is looked up by nobody: localhost alone counts.
func OnLoopback(addr string) bool {
	return loopback.Is(Loopback(addr))
}
