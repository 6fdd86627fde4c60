package config

import (
	"net/url"
	"slices"
	"strings"
)

// API is the section of the process api, which serves duetime to services in any language.
type API struct {
	Admin      string    `key:"admin" form:"addr" doc:"as event.admin"`
	Listen     string    `key:"listen" form:"addr" doc:"host:port of the API; without a host it is loopback. On another address it needs tokens and api.tls"`
	Tokens     Secret    `key:"tokens" form:"yaml" doc:"YAML list of the callers' tokens, roles and scopes; without tokens everybody on this machine may do everything"`
	TokensFile string    `key:"tokens_file" doc:"file with the tokens, instead of api.tokens"`
	Origins    []string  `key:"origins" doc:"web sites whose scripts may call from browsers, such as https://shop.example; * is every site, and needs tokens"`
	TLS        ServerTLS `key:"tls"`
}

// ServerTLS is the certificate of a server of ours.
type ServerTLS struct {
	CertFile   string `key:"cert_file" doc:"PEM file of the server's certificate; it is read again after it has changed. Empty is no TLS"`
	KeyFile    string `key:"key_file" doc:"PEM file of the certificate's key"`
	Terminated bool   `key:"terminated" doc:"true: a proxy or a mesh ends TLS in front of this process, which then serves plain text, to callers with tokens alone"`
}

// DefaultAPI returns the section for one machine: everybody on it may do everything.
func DefaultAPI() *API { return &API{Listen: "127.0.0.1:8091", Origins: []string{}} }

// Name is the section's name.
func (*API) Name() string { return "api" }

// Validate adds a problem for each key out of its limits.
func (a *API) Validate(p *Problems) {
	p.CheckAdmin("api.admin", a.Admin)
	p.CheckListen("api.listen", a.Listen)
	if a.Tokens != "" && a.TokensFile != "" {
		p.Addf("api.tokens_file: has no use beside api.tokens")
	}
	if (a.TLS.CertFile == "") != (a.TLS.KeyFile == "") {
		p.Addf("api.tls.cert_file: goes with api.tls.key_file")
	}
	if a.TLS.CertFile != "" && a.TLS.Terminated {
		p.Addf("api.tls.terminated: has no use beside api.tls.cert_file")
	}
	a.checkReach(p)
	for _, origin := range a.Origins {
		if why := notOrigin(origin); why != "" {
			p.Addf("api.origins: %q is not of the form scheme://host:port: %s", origin, why)
		}
	}
	if slices.Contains(a.Origins, "*") && !a.hasTokens() {
		p.Addf("api.origins: * needs api.tokens, since each web site could call by the browser of somebody on this machine")
	}
}

func (a *API) hasTokens() bool { return a.Tokens != "" || a.TokensFile != "" }

// notOrigin tells what is wrong with an origin, or returns nothing. Browsers send an origin in one form only, and in another
// form it would match none.
func notOrigin(text string) string {
	if text == "*" {
		return ""
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme == "" || u.Hostname() == "" || strings.Contains(text, "*"):
		return "write it as https://shop.example"
	case u.User != nil:
		return "write it without a user"
	case text != u.Scheme+"://"+u.Host:
		return "write it without a path, in lower case"
	case text != strings.ToLower(text):
		return "write it in lower case"
	case strings.HasSuffix(u.Host, ":"), u.Port() != "" && !isPort(u.Port(), 1):
		return "its port is not a number from 1 to 65535"
	case u.Scheme == "https" && u.Port() == "443", u.Scheme == "http" && u.Port() == "80":
		return "write it without the port of its scheme"
	}
	return ""
}

// checkReach adds a problem for each guard that is missing where other machines reach the API.
func (a *API) checkReach(p *Problems) {
	switch local := OnLoopback(a.Listen); {
	case a.hasTokens():
	case !local:
		p.Addf("api.tokens: is needed, since others reach api.listen %s", a.Listen)
	case a.TLS.Terminated:
		p.Addf("api.tokens: is needed with api.tls.terminated, since others reach the proxy")
	}
	if !OnLoopback(a.Listen) && a.TLS.CertFile == "" && !a.TLS.Terminated {
		p.Addf("api.tls.cert_file: is needed, since tokens would travel to api.listen %s in plain text; or api.tls.terminated", a.Listen)
	}
}

// TokensSecret returns the list of tokens, from its file if there is one; empty without tokens.
func (a *API) TokensSecret() (Secret, error) {
	return secret{"api.tokens", a.Tokens, a.TokensFile}.read()
}
