package api

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/duetimev1/duetimev1connect"
	"github.com/duetime/duetime/pkg/schedule"
)

// Config says who may call, and where calls are counted.
type Config struct {
	// Tokens are the callers; none: everybody on this machine may do everything, by a name of loopback.
	Tokens []Token
	// Origins are the web sites whose scripts may call, such as https://shop.example; "*", with tokens only, is all.
	Origins []string
	Logger  *slog.Logger          // default slog.Default
	Metrics prometheus.Registerer // nil: none

	// Unavailable reports whether an error says that the database is away and nothing was committed; nil: none does.
	Unavailable func(err error) bool
	// Full reports whether an error says that the database's disk is full and nothing was committed; nil: none does.
	Full func(err error) bool

	// Deployment returns the id of the schema, of which the key of cursors is made. Tokens with a scope need it.
	Deployment func(ctx context.Context) (string, error)
}

// API serves the calls. Run it beside its handler.
type API struct {
	handler http.Handler
	watches *watches
	health  *grpchealth.StaticChecker
	log     *slog.Logger
}

// service is what the handlers of all services share.
type service struct {
	client  *schedule.Client
	console *console.Console
	watches *watches
	places  places
	queues  sync.Map // that the deployment has, as was read once: its transaction refuses one that was retired since
}

// New makes an API on an open client and its console. An error names the token or the origin that can't be meant.
func New(cfg Config, client *schedule.Client, c *console.Console) (*API, error) {
	access, err := newAccess(cfg.Tokens)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	log := cmp.Or(cfg.Logger, slog.Default())
	never := func(error) bool { return false }
	unavailable, full := cfg.Unavailable, cfg.Full
	if unavailable == nil {
		unavailable = never
	}
	if full == nil {
		full = never
	}
	s := &service{client: client, console: c, watches: newWatches(c.Rows), places: newPlaces(ownersLists, ownersWaits)}
	options := connect.WithHandlerOptions(
		connect.WithRequestGate(access.admit),
		connect.WithInterceptors(calls{&failures{unavailable: unavailable, full: full, log: log}},
			connect.UnaryInterceptorFunc(sealer{cfg.Deployment}.wrap)),
		connect.WithCodec(strictJSON{"json"}), connect.WithCodec(strictJSON{"json; charset=utf-8"}),
		connect.WithReadMaxBytes(maxMessage), unpacking(maxMessage), connect.WithCompressMinBytes(minCompressed),
	)
	mux := http.NewServeMux()
	mux.Handle(duetimev1connect.NewTaskServiceHandler(tasks{s}, options))
	mux.Handle(duetimev1connect.NewRecurrenceServiceHandler(recurrences{s}, options))
	mux.Handle(duetimev1connect.NewOperationServiceHandler(operations{s}, options))
	mux.Handle(duetimev1connect.NewOwnerServiceHandler(owners{s}, options))
	mux.Handle(duetimev1connect.NewGroupServiceHandler(groups{s}, options))
	mux.Handle(duetimev1connect.NewPauseServiceHandler(pauses{s}, options))
	mux.Handle(duetimev1connect.NewQueueServiceHandler(queues{s}, options))
	health := grpchealth.NewStaticChecker(services()...)
	handleStandard(mux, health, options)
	if err := handlePage(mux); err != nil {
		return nil, err
	}
	handler, err := access.guarded(newMetrics(cfg.Metrics, s.watches).counted(patient(explained(mux))), cfg.Origins)
	if err != nil {
		return nil, err
	}
	return &API{handler: handler, watches: s.watches, health: health, log: log}, nil
}

// ServeHTTP answers one call.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// Run looks at what streams watch until ctx ends, and ends the streams.
func (a *API) Run(ctx context.Context) error {
	defer a.watches.end()
	defer notServing(a.health)
	return loop.Run(ctx, loop.Config{Name: "watches", Interval: watchInterval, Logger: a.log},
		func(ctx context.Context) (loop.Result, error) { return loop.Result{}, a.watches.pass(ctx) })
}

// patient lets streams outlast the server's limit on answers. It leaves the limit on requests, which net/http lifts by itself once
// the message was read: a caller without a token, or one who never sends the message, must not hold a connection.
func patient(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == duetimev1connect.TaskServiceWatchProcedure {
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(watchLimit + callTimeout)); err != nil {
				http.Error(w, fmt.Sprintf("no stream here: %v", err), http.StatusInternalServerError)
				return
			}
		}
		h.ServeHTTP(w, r)
	})
}
