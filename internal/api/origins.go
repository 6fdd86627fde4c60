package api

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"
	rpccors "connectrpc.com/cors"
	"github.com/rs/cors"
)

// preflightAge is how long a browser keeps the answer whether a site may call; Chromium keeps none for longer.
const preflightAge = 2 * time.Hour

// shared lets scripts of the origins call and read answers. Cookies are never sent: a caller is known by its token alone.
func shared(h http.Handler, origins []string) http.Handler {
	if len(origins) == 0 { // which the library would take for all
		return h
	}
	return cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: rpccors.AllowedMethods(),
		AllowedHeaders: append(rpccors.AllowedHeaders(), "Authorization"),
		ExposedHeaders: rpccors.ExposedHeaders(),
		MaxAge:         int(preflightAge / time.Second),
	}).Handler(h)
}

// sameSite refuses calls that browsers make for a site of another origin than the trusted ones.
func sameSite(h http.Handler, trusted []string) (http.Handler, error) {
	protection := http.NewCrossOriginProtection()
	for _, origin := range trusted {
		if origin == "*" {
			return nil, fmt.Errorf("origins: %s needs tokens", origin)
		}
		if err := protection.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("origins: %w", err)
		}
	}
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, http.StatusForbidden, connect.NewError(connect.CodePermissionDenied, errOrigin))
	}))
	return protection.Handler(h), nil
}

var errOrigin = errors.New("api.origins does not name the web site whose script calls")
