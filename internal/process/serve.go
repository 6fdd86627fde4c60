package process

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof" // also registers with the default mux, which no server of ours serves
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/duetime/duetime/internal/metric"
)

// Limits of each of our HTTP servers: a client that is slow or silent must not keep a connection forever, and no client
// may fill the memory. A handler may set a smaller limit for a body.
const (
	headerTimeout  = 5 * time.Second
	readTimeout    = 10 * time.Second
	writeTimeout   = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	maxBodyBytes   = 1 << 20
)

// NewServer makes a server of h within these limits.
func NewServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: http.MaxBytesHandler(h, maxBodyBytes), ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
	}
}

// Serve answers HTTP requests on addr with h until the process stops. Requests in flight are finished first. Serve
// returns its address, which has the real port if addr has port 0, or an error if it can't listen there. An addr without
// a host means every interface of the machine: callers that don't want this must add a host.
func (e *Env) Serve(ctx context.Context, name, addr string, h http.Handler) (net.Addr, error) {
	return e.ServeBy(ctx, NewServer(h), name, addr)
}

// ServeBy is Serve by a server that NewServer has made and the caller has changed: with TLS if the server has a TLSConfig.
func (e *Env) ServeBy(ctx context.Context, server *http.Server, name, addr string) (net.Addr, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serve %s: %w", name, err)
	}
	server.ErrorLog = slog.NewLogLogger(e.Log().Handler(), slog.LevelWarn)
	served := make(chan error, 1)
	go func() {
		if server.TLSConfig != nil {
			served <- server.ServeTLS(listener, "", "")
			return
		}
		served <- server.Serve(listener)
	}()
	e.OnStop(name, func(ctx context.Context) error {
		if err := server.Shutdown(ctx); err != nil {
			return errors.Join(err, server.Close())
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	e.Log().LogAttrs(ctx, slog.LevelInfo, "listening", slog.String("what", name), slog.String("addr", listener.Addr().String()))
	return listener.Addr(), nil
}

// ServeAdmin serves on addr: /livez (200 while the process answers, and does not hang by what SetAlive was given), /readyz (200 from Ready until the stop, else
// 503), /metrics, and /debug/pprof/ for requests with the token. An empty addr serves nothing; an empty token serves no
// /debug/pprof/. Call ServeAdmin first, so that it is closed last and answers while the process waits for its servers.
func (e *Env) ServeAdmin(ctx context.Context, addr, token string) error {
	if addr == "" {
		return nil
	}
	_, err := e.Serve(ctx, "admin", addr, e.adminHandler(token))
	return err
}

func (e *Env) adminHandler(token string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		if alive := e.alive.Load(); alive != nil {
			if err := (*alive)(); err != nil {
				answer(w, http.StatusServiceUnavailable, err.Error())
				return
			}
		}
		answer(w, http.StatusOK, "alive")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		switch {
		case e.stopping.Load():
			answer(w, http.StatusServiceUnavailable, "stopping")
		case !e.ready.Load():
			answer(w, http.StatusServiceUnavailable, "not ready")
		default:
			answer(w, http.StatusOK, "ready")
		}
	})
	mux.Handle("GET /metrics", promhttp.InstrumentMetricHandler(e.Registry, promhttp.HandlerFor(
		metric.GatherIn(e.Namespace, e.Registry), promhttp.HandlerOpts{Registry: e.Registry})))
	if token != "" {
		mux.Handle("/debug/pprof/", profiles(token))
	}
	return mux
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}

// profiles serves /debug/pprof/ to requests with the token, and answers 401 to all others.
func profiles(token string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hasToken(r, token) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			answer(w, http.StatusUnauthorized, "the token is missing or wrong")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// hasToken reports whether the request has the token. It compares sums of one length, so that its time depends neither on
// how much of the token is right nor on its length.
func hasToken(r *http.Request, token string) bool {
	scheme, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(shown))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}
