package duetimetest

import (
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/worker"
)

// Option adds to Client and Fire what the service gives to its client and its worker.
type Option func(*options)

type options struct {
	before schedule.SpecFunc
	mux    *worker.Mux
	clock  *Clock
	in     schedule.InChangeFunc
	on     schedule.OnChangeFunc
}

// BeforeSchedule has fn see each spec before it is scheduled, as with duetime.BeforeSchedule: in Client what the service
// schedules, in Fire what handlers schedule.
func BeforeSchedule(fn schedule.SpecFunc) Option { return func(o *options) { o.before = fn } }

// Handlers gives Client the handlers by which SettleDue and Fresh run due tasks, as with duetime.Handlers.
func Handlers(mux *worker.Mux) Option { return func(o *options) { o.mux = mux } }

// On has Client go by the clock.
func On(clock *Clock) Option { return func(o *options) { o.clock = clock } }

// InChange has fn see changes of tasks in their transactions, as with duetime.InChange: in Client and in Fire.
func InChange(fn schedule.InChangeFunc) Option { return func(o *options) { o.in = fn } }

// OnChange has fn hear of changes of tasks after their commits, as with duetime.OnChange: in Client and in Fire. Fire returns once all
// are reported.
func OnChange(fn schedule.OnChangeFunc) Option { return func(o *options) { o.on = fn } }

func chosen(opts []Option) (o options) {
	for _, opt := range opts {
		opt(&o)
	}
	return o
}
