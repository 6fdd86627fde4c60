package consoleweb

import (
	"net/http"

	"github.com/duetime/duetime/pkg/console"
)

// HandlerWithWalks is Handler, with the channel that holds one value while somebody reads rows of all owners.
func HandlerWithWalks(c *console.Console, cfg Config) (http.Handler, chan struct{}, error) {
	s, err := newSite(c, cfg)
	if err != nil {
		return nil, nil, err
	}
	return s.handler(), s.walks, nil
}
