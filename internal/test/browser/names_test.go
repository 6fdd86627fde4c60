package browser_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/consoleweb"
)

// On plain http of a name that is not loopback's, Chromium sends no Sec-Fetch-Site: the page's own forms then depend on Origin, which
// the page's Referrer-Policy must not turn into null.
func TestFormsByAnotherName(t *testing.T) {
	t.Parallel()
	pages, err := consoleweb.Handler(console.New(console.Config{}, nil, nil, nil), consoleweb.Config{Proxies: []consoleweb.Proxy{{
		From:  []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Roles: map[string]consoleweb.Grant{"ann": {Role: consoleweb.RoleOperate}},
	}}})
	pipelinetest.Must(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/now" || r.URL.Path == "/favicon.ico" { // where the form leads, and what is asked for there; the view would need a database
			return
		}
		r.Header.Set("X-Forwarded-User", "ann")
		pages.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	pipelinetest.Must(t, err)
	browser := openBrowser(t, chromedp.Flag("host-resolver-rules", "MAP console.example 127.0.0.1"))
	p := openTab(t, browser, "http://console.example:"+at.Port()+"/")
	p.open("nowhere") // needs no server
	p.forgive("404")
	p.do(chromedp.Click(chromedp.CSS("footer button[value=zh]")))
	p.await("location.pathname != '/nowhere'")
	want(t, "where the form led", eval[string](p, "location.pathname"), "/now")
}
