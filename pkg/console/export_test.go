package console

import "net/http"

// HandlerWithWalks is Handler, with the channel that holds one value while somebody reads rows of all owners.
func HandlerWithWalks(c *Console, cfg PageConfig) (http.Handler, chan struct{}, error) {
	s, err := newSite(c, cfg)
	if err != nil {
		return nil, nil, err
	}
	return s.handler(), s.walks, nil
}
