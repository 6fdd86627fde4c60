package api

import (
	"context"
	"net/http"
	"path"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/pkg/duetimev1/duetimev1connect"
)

// codes of requests that have no code of their own.
const (
	codeOK         = "ok"
	codeUnreadable = "unreadable" // the request has no message: it is too long, or its protocol is none of ours
)

// metrics count requests.
type metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer, open *watches) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_api_requests_total", Help: "Calls of the API, by their method and code.",
		}, []string{"method", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "duetime_api_request_duration_seconds", Help: "Time of calls of the API, streams excepted.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20},
		}, []string{"method"}),
	}
	if reg != nil {
		reg.MustRegister(m.requests, m.durations, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "duetime_api_watches", Help: "Open streams of the API.",
		}, func() float64 { return float64(open.count()) }))
	}
	return m
}

// outcome is what became of a request, for the metrics.
type outcome struct{ code string }

type outcomeKey struct{}

// note keeps the code of an answer, and returns the answer.
func note(ctx context.Context, answer *connect.Error) error {
	kept, _ := ctx.Value(outcomeKey{}).(*outcome)
	if kept == nil {
		kept = new(outcome)
	}
	if answer == nil {
		kept.code = codeOK
		return nil
	}
	kept.code = answer.Code().String()
	return answer
}

// counted counts requests of known procedures. Others are no calls, and their paths must not become labels.
func (m *metrics) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, known := roles[r.URL.Path]; !known {
			h.ServeHTTP(w, r)
			return
		}
		began, kept, method := time.Now(), &outcome{codeUnreadable}, path.Base(r.URL.Path)
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), outcomeKey{}, kept)))
		m.requests.WithLabelValues(method, kept.code).Inc()
		switch r.URL.Path {
		case duetimev1connect.TaskServiceWatchProcedure, reflectProcedure, reflectAlphaProcedure: // streams
		default:
			m.durations.WithLabelValues(method).Observe(time.Since(began).Seconds())
		}
	})
}
