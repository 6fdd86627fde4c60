// Package rabbitmq puts RabbitMQ under the benchmark: delays by time to live and a dead-letter exchange, as its
// documentation describes them (https://www.rabbitmq.com/docs/ttl, https://www.rabbitmq.com/docs/dlx). A message waits
// in a queue that nobody consumes; when its time to live is over, the broker routes it on to the queue of due messages.
// Queues are durable, messages persistent, publishing is confirmed, and a message is acknowledged after its handler.
//
// Two systems: Open has a waiting queue per delay, which is what is usually recommended; OpenTTL has one waiting queue
// and a time to live per message, which is easy to write and wrong, because only the head of a queue expires: what
// stands behind a message with a longer delay waits for the whole of it. In neither can a waiting message be moved or
// cancelled.
package rabbitmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/bench/queue"
)

const (
	// due is the queue of due messages. The default exchange, which routes by queue name, is the dead-letter exchange.
	due = "bench.due"
	// prefetch of the consumer: RabbitMQ's guide to confirms says that 100 to 300 usually give the best throughput.
	prefetch = 300
	// unconfirmed is how many messages a caller has under way before it waits for the oldest one's confirm: a confirm
	// for each message before the next is sent would make bulks slow.
	unconfirmed = 4096
)

// Queue is one connection: RabbitMQ advises to publish and to consume on different ones, and producer and worker are
// different processes here.
type Queue struct {
	conn    *amqp.Connection
	workers int
	wait    waiting
	idle    chan *amqp.Channel // open publishing channels that nobody uses: a channel serves one caller at a time
}

// waiting is how messages wait.
type waiting interface {
	// declare makes the queues that all messages share.
	declare(ch *amqp.Channel) error
	// ahead tells how long before its due time each of the jobs is handed to the broker; 0: all at once, now.
	ahead(jobs []queue.Job) time.Duration
	// place names the queue for a message that is to wait so long, and its time to live if the queue has none.
	place(ch *amqp.Channel, left time.Duration) (name, expiration string, err error)
}

// Open opens the system with a waiting queue per delay.
func Open(_ context.Context, env queue.Env) (queue.Queue, error) {
	return open(env, &perDelay{declared: map[string]time.Time{}})
}

// OpenTTL opens the system with one waiting queue and a time to live per message.
func OpenTTL(_ context.Context, env queue.Env) (queue.Queue, error) { return open(env, perMessage{}) }

func open(env queue.Env, wait waiting) (queue.Queue, error) {
	conn, err := amqp.Dial(env.AMQP)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	q := &Queue{conn: conn, workers: env.Workers, wait: wait, idle: make(chan *amqp.Channel, 64)}
	if err := q.declare(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return q, nil
}

func (q *Queue) declare() error {
	ch, err := q.channel()
	if err != nil {
		return err
	}
	defer q.release(ch)
	if _, err := ch.QueueDeclare(due, true, false, false, false, nil); err != nil {
		return fmt.Errorf("declare %s: %w", due, err)
	}
	return q.wait.declare(ch)
}

// channel lends a publishing channel to one caller.
func (q *Queue) channel() (*amqp.Channel, error) {
	select {
	case ch := <-q.idle:
		return ch, nil
	default:
	}
	ch, err := q.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	if err := ch.Confirm(false); err != nil {
		return nil, fmt.Errorf("ask for confirms: %w", err)
	}
	return ch, nil
}

// release passes the channel to whom it may concern next.
func (q *Queue) release(ch *amqp.Channel) {
	select {
	case q.idle <- ch:
	default:
		_ = ch.Close()
	}
}

// Schedule publishes the jobs in their order and returns when the broker has confirmed all.
func (q *Queue) Schedule(ctx context.Context, jobs []queue.Job) error {
	ch, err := q.channel()
	if err != nil {
		return err
	}
	defer q.release(ch)
	ahead := q.wait.ahead(jobs)
	var sent []*amqp.DeferredConfirmation
	for _, j := range jobs {
		if len(sent) == unconfirmed {
			if err := confirmed(ctx, sent[:1]); err != nil {
				return err
			}
			sent = sent[1:]
		}
		if ahead > 0 {
			if err := sleep(ctx, j.At().Add(-ahead)); err != nil {
				return err
			}
		}
		one, err := q.publish(ctx, ch, j)
		if err != nil {
			return err
		}
		sent = append(sent, one)
	}
	return confirmed(ctx, sent)
}

// sleep ends at the given time, at once if it has passed.
func sleep(ctx context.Context, until time.Time) error {
	left := time.Until(until)
	if left <= 0 {
		return nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *Queue) publish(ctx context.Context, ch *amqp.Channel, j queue.Job) (*amqp.DeferredConfirmation, error) {
	body, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("encode %d: %w", j.ID, err)
	}
	name, expiration := due, ""
	if left := time.Until(j.At()); left > 0 {
		if name, expiration, err = q.wait.place(ch, left); err != nil {
			return nil, err
		}
	}
	one, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", name, false, false, amqp.Publishing{
		ContentType: "application/json", DeliveryMode: amqp.Persistent, Expiration: expiration, Body: body,
	})
	if err != nil {
		return nil, fmt.Errorf("publish %d: %w", j.ID, err)
	}
	return one, nil
}

// confirmed waits until the broker has taken all.
func confirmed(ctx context.Context, sent []*amqp.DeferredConfirmation) error {
	for _, one := range sent {
		ok, err := one.WaitContext(ctx)
		if err != nil {
			return fmt.Errorf("wait for a confirm: %w", err)
		}
		if !ok {
			return errors.New("the broker refused a message")
		}
	}
	return nil
}

// Work consumes due messages until ctx ends; what is prefetched by then goes back to the queue with the channel.
func (q *Queue) Work(ctx context.Context, e *queue.Effects) error {
	ch, err := q.conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	if err := ch.Qos(max(prefetch, q.workers), 0, false); err != nil {
		return fmt.Errorf("set the prefetch: %w", err)
	}
	deliveries, err := ch.Consume(due, "", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume %s: %w", due, err)
	}
	group, ctx := errgroup.WithContext(ctx)
	for range q.workers {
		group.Go(func() error { return handle(ctx, deliveries, e) })
	}
	return errors.Join(group.Wait(), ch.Close())
}

// handle runs one message after the other.
func handle(ctx context.Context, deliveries <-chan amqp.Delivery, e *queue.Effects) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case d, ok := <-deliveries:
			if !ok {
				return errors.New("the broker closed the channel")
			}
			if err := run(context.WithoutCancel(ctx), d, e); err != nil {
				return err
			}
		}
	}
}

// run acknowledges the message after its effect; one that failed is delivered again.
func run(ctx context.Context, d amqp.Delivery, e *queue.Effects) error {
	var j queue.Job
	if err := json.Unmarshal(d.Body, &j); err != nil {
		return fmt.Errorf("decode a message: %w", err)
	}
	if e.Do(ctx, j) != nil {
		return d.Nack(false, true)
	}
	return d.Ack(false)
}

// Close ends the connection with its channels.
func (q *Queue) Close() error {
	if err := q.conn.Close(); err != nil && !errors.Is(err, amqp.ErrClosed) {
		return fmt.Errorf("close the connection: %w", err)
	}
	return nil
}
