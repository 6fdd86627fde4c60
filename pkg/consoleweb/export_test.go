package consoleweb

import (
	"net/http"
	"time"

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

// HandlerWithReadings is Handler, with a function that makes its readings older, and lets none begin for a while.
func HandlerWithReadings(c *console.Console, cfg Config) (http.Handler, func(older, pause time.Duration), error) {
	s, err := newSite(c, cfg)
	if err != nil {
		return nil, nil, err
	}
	return s.handler(), func(older, pause time.Duration) {
		r := s.readings
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, k := range r.kept {
			k.last.at = k.last.at.Add(-older)
		}
		r.idle = time.Now().Add(pause)
		r.notify()
	}, nil
}
