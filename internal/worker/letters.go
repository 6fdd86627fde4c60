package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/duetime/duetime/internal/batcher"
	"github.com/duetime/duetime/internal/protocol"
)

const (
	maxQueuedLetters = 5_000 // dead letters that wait for the dead topic, of at most 9 KiB
	maxPerLetterCall = 100
	letterInterval   = 200 * time.Millisecond
	letterTries      = 3
	letterTimeout    = time.Second // of one call to the dead topic
)

// letters brings dead letters to the dead topic. The topic is a convenience that the rows outlive: letters that find the queue full
// are dropped and counted, never waited for.
type letters struct {
	to      Buryer
	metrics *metrics
	log     *slog.Logger
	queue   *batcher.Batcher[protocol.DeadLetter, struct{}]
}

func newLetters(to Buryer, m *metrics, log *slog.Logger) *letters {
	l := &letters{to: to, metrics: m, log: log}
	l.queue = batcher.New(batcher.Config[protocol.DeadLetter]{Calls: 1, Items: maxPerLetterCall, Queue: maxQueuedLetters}, l.send)
	return l
}

// Bury queues dead letters.
func (l *letters) Bury(dead []protocol.DeadLetter) {
	if len(dead) > 0 {
		l.metrics.unburied.Add(float64(l.queue.Add(dead...)))
	}
}

// run works until ctx ends and the queue is empty; the end of calls cancels calls in flight, and has the others fail.
func (l *letters) run(ctx, calls context.Context) {
	defer context.AfterFunc(ctx, l.queue.Close)()
	l.queue.Run(calls)
}

// send passes dead letters on. After three refusals they are passed over: the rows say dead all the same.
func (l *letters) send(ctx context.Context, dead []protocol.DeadLetter) ([]struct{}, error) {
	var errs []error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		ctx, cancel := context.WithTimeout(ctx, letterTimeout)
		defer cancel()
		err := l.to.Bury(ctx, dead)
		if err != nil {
			errs = append(errs, err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(backoff.NewConstantBackOff(letterInterval)), backoff.WithMaxTries(letterTries))
	if err == nil {
		return nil, nil
	}
	l.metrics.unburied.Add(float64(len(dead)))
	for _, letter := range dead {
		l.log.ErrorContext(ctx, "dead letter refused", slog.String("task_id", letter.ID.String()),
			slog.String("kind", letter.Kind), slog.Any("err", errors.Join(errs...)))
	}
	return nil, err
}

// unreadable is the dead letter of a message that can't be decoded.
func unreadable(queue string, d protocol.Delivery) protocol.DeadLetter {
	return protocol.DeadLetter{Queue: queue, Error: d.Err.Error(), Raw: d.Raw}
}
