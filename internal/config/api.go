package config

// API is the section of the process api, which serves duetime to services in any language.
type API struct {
	Admin      string    `koanf:"admin" form:"addr" doc:"as event.admin"`
	Listen     string    `koanf:"listen" form:"addr" doc:"host:port of the API; without a host it is loopback. On another address it needs api.tokens_file and api.tls"`
	TokensFile string    `koanf:"tokens_file" doc:"YAML file with the callers' tokens, roles and scopes; empty: everybody on this machine may do everything"`
	TLS        ServerTLS `koanf:"tls"`
}

// ServerTLS is the certificate of a server of ours.
type ServerTLS struct {
	CertFile string `koanf:"cert_file" doc:"PEM file of the server's certificate; it is read again after it has changed. Empty is no TLS"`
	KeyFile  string `koanf:"key_file" doc:"PEM file of the certificate's key"`
}

// DefaultAPI returns the section for one machine: everybody on it may do everything.
func DefaultAPI() *API { return &API{Listen: "127.0.0.1:8091"} }

// Name is the section's name.
func (*API) Name() string { return "api" }

// Validate adds a problem for each key out of its limits.
func (a *API) Validate(p *Problems) {
	p.CheckAdmin("api.admin", a.Admin)
	p.CheckListen("api.listen", a.Listen)
	if (a.TLS.CertFile == "") != (a.TLS.KeyFile == "") {
		p.Addf("api.tls.cert_file: goes with api.tls.key_file")
	}
	if OnLoopback(a.Listen) {
		return
	}
	if a.TokensFile == "" {
		p.Addf("api.tokens_file: is needed, since others reach api.listen %s", a.Listen)
	}
	if a.TLS.CertFile == "" {
		p.Addf("api.tls.cert_file: is needed, since tokens would travel to api.listen %s in plain text", a.Listen)
	}
}

// TokensSecret returns the content of the tokens' file; empty without one.
func (a *API) TokensSecret() (Secret, error) {
	return secret{key: "api.tokens", file: a.TokensFile}.read()
}
