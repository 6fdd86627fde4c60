package worker

import (
	"context"

	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/settle"
)

// Inside opens a mux to our own worker: its handlers by kind, within their middleware, and its hooks. Services have no key.
func Inside(_ inside.Key, m *Mux) (map[string]*settle.Handler, []func(ctx context.Context, e Event), error) {
	return m.handlers, m.hooks, m.compose()
}
