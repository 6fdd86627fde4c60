// Command worker shows a worker of your own, as a deployment runs it: it runs the tasks of its kinds, and serves /livez, /readyz
// and /metrics at worker.admin. docs/DEPLOYING.md says how an overlay for Kubernetes takes it.
//
//	go run ./examples/worker --config duetime.yaml
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Order is the payload of a task that ends an order.
type Order struct {
	ID int64 `json:"id"`
}

// Expire is declared once: put it into a package that the scheduling service imports too.
var Expire = task.NewKind[Order]("order.expire", task.MaxAttempts(10))

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	file := flags.String("config", "", "configuration; empty: configs/duetime.yaml, which may be missing")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	cfg, err := duetime.LoadConfig(*file)
	if err != nil {
		return err
	}
	log, err := cfg.Log.Handler(os.Stderr)
	if err != nil {
		return err
	}
	slog.SetDefault(slog.New(log)) // duetime logs to it
	if cfg.Worker.Admin == "" {
		return errors.New("worker.admin is empty: probes and Prometheus need an address, such as 0.0.0.0:9090")
	}
	admin, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Worker.Admin)
	if err != nil {
		return err
	}
	return run(ctx, cfg, admin)
}

// run works until ctx ends. The admin pages answer while it waits for MySQL, and while running handlers end.
func run(ctx context.Context, cfg duetime.Config, admin net.Listener) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var joined atomic.Bool
	client, err := duetime.Open(cfg, duetime.WithMetrics(registry), duetime.OnJoined(func() { joined.Store(true) }))
	if err != nil {
		return errors.Join(err, admin.Close())
	}
	defer func() { _ = client.Close(context.WithoutCancel(ctx)) }()

	ready := func() bool { return joined.Load() && ctx.Err() == nil }
	server := &http.Server{Handler: pages(client.Alive, ready, registry), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(admin) }()
	err = client.Work(ctx, handlers())
	_ = server.Close()
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}

func handlers() *worker.Mux {
	mux := worker.NewMux()
	worker.Handle(mux, Expire, func(ctx context.Context, tx *worker.Tx, t worker.Task[Order]) error {
		_, err := tx.ExecContext(ctx, "UPDATE orders SET state = 'expired' WHERE id = ? AND state = 'open'", t.Payload.ID)
		return err
	})
	return mux
}

// pages are what probes and Prometheus ask for. A process that is not alive is started anew, so alive asks no server.
func pages(alive func() error, ready func() bool, metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		if err := alive(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}
