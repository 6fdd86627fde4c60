package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/process"
	"github.com/duetime/duetime/pkg/deliver"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// deliverKinds registers the kinds that are delivered by HTTP.
func deliverKinds(env *process.Env, mux *worker.Mux, namespace string, push *config.Deliver) error {
	if len(push.Kinds) == 0 {
		return nil
	}
	pusher, err := deliver.New(deliver.Config{
		Namespace: namespace, Allow: push.Allow, Logger: env.Log(), Metrics: env.Registry,
	})
	if err != nil {
		return err
	}
	env.OnStop("endpoints", func(context.Context) error { pusher.Close(); return nil })
	for _, e := range push.Kinds {
		if slices.Contains(mux.Kinds(), e.Kind) {
			return fmt.Errorf("deliver.kinds: %s: this worker has a handler of its own for the kind", e.Kind)
		}
		secrets, err := e.Secret()
		if err != nil {
			return err
		}
		kind := task.NewKind[json.RawMessage](e.Kind, task.Queue(e.Queue), task.Timeout(e.Timeout+config.HandlerMargin))
		to := deliver.Endpoint{URL: e.URL, Secrets: secrets, Timeout: e.Timeout}
		if err := deliver.Handle(mux, kind, pusher, to); err != nil {
			return err
		}
	}
	return nil
}
