// Package metric registers what several parts of one process count together.
package metric

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Shared registers c with reg and returns it, or the collector of the same description that reg has already: two clients, or
// two workers, of one process count together. A nil reg registers nothing. It panics where the name stands for something
// else, which is a programmer's error at start.
func Shared[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	err := reg.Register(c)
	if before, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if standing, ok := before.ExistingCollector.(C); ok {
			return standing
		}
	}
	if err != nil {
		panic(err)
	}
	return c
}
