package index

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// resubscribePause keeps a lost server from being asked without end; a dispatcher looks once a second anyway.
const resubscribePause = 200 * time.Millisecond

// Wakes calls fn for every entry that became the first one not yet claimed in its shard, of the shards 0 … shards-1,
// with the entry's time. It subscribes until ctx is done, again after every loss of the connection, and then returns
// ctx's error. Wake-ups published while it was not connected are lost; each time that it is, it calls fn for every
// shard with the zero time. fn must return quickly and be safe for concurrent calls: in Cluster every shard has a
// connection of its own, since shards may live on different nodes.
func (x *Index) Wakes(ctx context.Context, shards int, fn func(shard int, at time.Time)) error {
	of := make(map[string]int, shards)
	for s := range shards {
		of[x.wakeKey(s)] = s
	}
	connected := func(channel string) { fn(of[channel], time.Time{}) }
	receive := func(channel, payload string) {
		if ms, err := strconv.ParseInt(payload, 10, 64); err == nil {
			fn(of[channel], time.UnixMilli(ms).UTC())
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, channels := range x.subscriptions(shards) {
		g.Go(func() error {
			for ctx.Err() == nil {
				x.listen(ctx, channels, connected, receive)
				pause(ctx, resubscribePause)
			}
			return ctx.Err()
		})
	}
	return g.Wait()
}

// subscriptions groups the channels by connection: all on one, or one each in Cluster.
func (x *Index) subscriptions(shards int) [][]string {
	var all []string
	var each [][]string
	for s := range shards {
		all = append(all, x.wakeKey(s))
		each = append(each, []string{x.wakeKey(s)})
	}
	if x.sharded() {
		return each
	}
	return [][]string{all}
}

func (x *Index) sharded() bool { return x.publish == "SPUBLISH" }

// listen receives on one connection. The library pings it and reconnects by itself; listen returns when ctx is done,
// or when the node has given the channel's slot away, so that the next connection goes to the new one.
func (x *Index) listen(ctx context.Context, channels []string, connected func(channel string), receive func(channel, payload string)) {
	var sub *redis.PubSub
	if x.sharded() {
		sub = x.client.SSubscribe(ctx, channels...)
	} else {
		sub = x.client.Subscribe(ctx, channels...)
	}
	defer func() { _ = sub.Close() }() // nothing is left to be done with the error of a closed connection
	incoming := sub.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(time.Second))
	for {
		select {
		case <-ctx.Done():
			return
		case m, ok := <-incoming:
			switch m := m.(type) {
			case *redis.Message:
				receive(m.Channel, m.Payload)
			case *redis.Subscription:
				if ok = ok && m.Kind != "sunsubscribe"; ok {
					connected(m.Channel)
				}
			}
			if !ok {
				return
			}
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
