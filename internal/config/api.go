package config

// API is the section of the process api, which serves duetime to services in any language.
type API struct {
	Admin      string    `koanf:"admin" form:"addr" doc:"as event.admin"`
	Listen     string    `koanf:"listen" form:"addr" doc:"host:port of the API; without a host it is loopback. On another address it needs tokens and api.tls"`
	Tokens     Secret    `koanf:"tokens" doc:"YAML list of the callers' tokens, roles and scopes; without tokens everybody on this machine may do everything"`
	TokensFile string    `koanf:"tokens_file" doc:"file with the tokens, instead of api.tokens"`
	TLS        ServerTLS `koanf:"tls"`
}

// ServerTLS is the certificate of a server of ours.
type ServerTLS struct {
	CertFile   string `koanf:"cert_file" doc:"PEM file of the server's certificate; it is read again after it has changed. Empty is no TLS"`
	KeyFile    string `koanf:"key_file" doc:"PEM file of the certificate's key"`
	Terminated bool   `koanf:"terminated" doc:"true: a proxy or a mesh ends TLS in front of this process, which then serves plain text, to callers with tokens alone"`
}

// DefaultAPI returns the section for one machine: everybody on it may do everything.
func DefaultAPI() *API { return &API{Listen: "127.0.0.1:8091"} }

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
}

// checkReach adds a problem for each guard that is missing where other machines reach the API.
func (a *API) checkReach(p *Problems) {
	hasTokens := a.Tokens != "" || a.TokensFile != ""
	switch local := OnLoopback(a.Listen); {
	case hasTokens:
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
