// Package metric registers metrics that several parts of one process share.
package metric

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Shared registers c with reg and returns it. If reg already has a collector of the same description, Shared returns
// that one:
// two clients, or two workers, of one process count together. A nil reg registers nothing. Shared panics if the name
// belongs to a different metric, which is a programmer's error at start.
func Shared[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	err := reg.Register(c)
	if registered, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if existing, ok := registered.ExistingCollector.(C); ok {
			return existing
		}
	}
	if err != nil {
		panic(err)
	}
	return c
}
