package index

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/protocol"
)

//go:embed lua/*.lua
var sources embed.FS

type scripts struct {
	put, drop, claim, ack, fill, repair, standings, remove, begin, finish, page *script
}

type script struct {
	name, text, sha string
}

func newScripts() scripts {
	return scripts{
		put: newScript("put"), drop: newScript("drop"), claim: newScript("claim"), ack: newScript("ack"), fill: newScript("fill"),
		repair: newScript("repair"), standings: newScript("standings"), remove: newScript("remove"), begin: newScript("begin"), finish: newScript("finish"), page: newScript("page"),
	}
}

// newScript puts the prelude after the line of flags, which must be the first.
func newScript(name string) *script {
	prelude, text := source("prelude"), source(name)
	flags := ""
	if strings.HasPrefix(text, "#!") {
		flags, text, _ = strings.Cut(text, "\n")
		flags += "\n"
	}
	text = flags + prelude + text
	return &script{name: name, text: text, sha: redis.NewScript(text).Hash()}
}

func source(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // it is part of the binary
	}
	return string(text)
}

// call is one run of a script in one shard.
type call struct {
	script *script
	shard  int
	keys   []string
	args   []any
	reply  *redis.Cmd
}

func (c *call) err() error {
	if err := c.reply.Err(); err != nil {
		return fmt.Errorf("%s in shard %d: %w", c.script.name, c.shard, err)
	}
	return nil
}

// run sends all calls in one pipeline and waits for all answers. It sends scripts by their hash. If the server does not
// know a script (after a restart, SCRIPT FLUSH, on a new node), a second pipeline sends the script's text. Each call has
// its own answer; a protocol.ShardsError names the shards whose calls failed.
func (x *Index) run(ctx context.Context, calls ...*call) error {
	if len(calls) == 0 {
		return nil
	}
	x.exec(ctx, calls, func(p redis.Pipeliner, c *call) *redis.Cmd {
		return p.EvalSha(ctx, c.script.sha, c.keys, c.args...)
	})
	if unknown := x.unknown(calls); len(unknown) > 0 {
		x.exec(ctx, unknown, func(p redis.Pipeliner, c *call) *redis.Cmd {
			return p.Eval(ctx, c.script.text, c.keys, c.args...)
		})
	}
	return x.failure(calls)
}

// failure returns the error of the server as a whole, or of some shards.
func (x *Index) failure(calls []*call) error {
	var first error
	shards := map[int]error{}
	whole := !x.sharded() // all shards are on one server
	for _, c := range calls {
		err := c.err()
		whole = whole && err != nil && !ofShard(err)
		if err == nil || shards[c.shard] != nil {
			continue
		}
		shards[c.shard] = err
		first = cmp.Or(first, err)
	}
	if first == nil || whole {
		return first
	}
	return &protocol.ShardsError{Shards: shards}
}

// ofShard reports whether the server's error is about the shard's keys, and not about the server or about our user.
func ofShard(err error) bool {
	_, answered := errors.AsType[redis.Error](err)
	return answered && !Away(err) && !IsRefused(err) && !says(err, []string{"OOM"})
}

func (x *Index) exec(ctx context.Context, calls []*call, send func(redis.Pipeliner, *call) *redis.Cmd) {
	p := x.client.Pipeline()
	for _, c := range calls {
		c.reply = send(p, c)
	}
	if _, err := p.Exec(ctx); err != nil {
		unsent(calls, err)
	}
}

// unsent sets the pipeline's error on its calls if no call has an error: a connection that was refused during its
// handshake sets no errors, and the calls would seem to have succeeded.
func unsent(calls []*call, err error) {
	if slices.ContainsFunc(calls, func(c *call) bool { return c.reply.Err() != nil }) {
		return
	}
	for _, c := range calls {
		c.reply.SetErr(err)
	}
}

// unknown returns the calls whose script the server did not know. A claim after an unknown ack is repeated too: it has
// returned the entries that the ack was to remove.
func (x *Index) unknown(calls []*call) []*call {
	first := slices.IndexFunc(calls, func(c *call) bool { return noScript(c.reply.Err()) })
	if first < 0 {
		return nil
	}
	var unknown []*call
	for _, c := range calls[first:] {
		if noScript(c.reply.Err()) || c.script == x.scripts.claim && c.reply.Err() == nil {
			unknown = append(unknown, c)
		}
	}
	return unknown
}

func noScript(err error) bool {
	return errors.Is(err, redis.ErrNoScript) || redis.HasErrorPrefix(err, "NOSCRIPT")
}
