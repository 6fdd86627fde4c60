package index

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// resubscribePause bounds the rate of tries while a server is lost. Dispatchers poll once a second anyway.
const resubscribePause = 200 * time.Millisecond

// Wakes calls fn for every entry that became the first unclaimed one of its shard, of the shards 0 … shards-1, with the
// entry's time. It keeps a subscription until ctx is done, across losses of the connection, and returns ctx's error.
// Wake-ups are lost while it is not connected; after each connect it calls fn for every shard with the zero time. fn
// must return quickly and be safe for concurrent calls: in Cluster every shard has a connection of its own, since shards
// may be on different nodes.
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

// subscriptions groups the channels by connection: all on one connection, or in Cluster one on each.
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

// listen receives on one connection, which the library pings and renews by itself. It returns when ctx is done, or when
// the node no longer has the channel's slot, so that the next connection goes to the new node.
func (x *Index) listen(ctx context.Context, channels []string, connected func(channel string), receive func(channel, payload string)) {
	var sub *redis.PubSub
	if x.sharded() {
		sub = x.client.SSubscribe(ctx, channels...)
	} else {
		sub = x.client.Subscribe(ctx, channels...)
	}
	defer func() { _ = sub.Close() }() // an error of closing has no consequence
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
