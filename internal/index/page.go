package index

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// pageMembers is how many members of an owner's set one call looks at. This takes a millisecond or two, in which Redis
// answers no other client.
const pageMembers = 1000

// OwnerPage lists up to limit (1 … task.MaxPerCall) of the owner's pending tasks, of one kind or ("") of any, by their
// run time. An empty place begins the list; next continues it, and is empty at the end. A page of one kind may be short,
// or empty, before the end. generation identifies the shard's rebuild. It is empty from a loss of memory to the end of
// the rebuild, when tasks may be missing. Pages of two generations don't make one list.
func (x *Index) OwnerPage(
	ctx context.Context, shard int, owner, kind, place string, limit int,
) (entries []protocol.Entry, next, generation string, err error) {
	score, id, err := readPlace(place)
	if err != nil {
		return nil, "", "", err
	}
	look := limit
	if kind != "" {
		kind = part(kind)
		look = max(limit, pageMembers)
	}
	c := &call{
		script: x.scripts.page, shard: shard, keys: []string{x.ownerKey(shard, owner)},
		args: []any{score, id, kind, strconv.Itoa(limit), strconv.Itoa(look)},
	}
	generation, err = x.readPage(ctx, c)
	if err != nil {
		return nil, "", "", err
	}
	answer, err := c.reply.StringSlice()
	if err == nil && (len(answer) < 2 || len(answer)%2 != 0) {
		err = fmt.Errorf("%d values", len(answer))
	}
	for i := 2; err == nil && i < len(answer); i += 2 {
		var s protocol.Score
		s, err = parseScore(answer[i+1])
		entries = append(entries, checkOwner(part(owner), decode(answer[i], float64(s))))
	}
	if err != nil {
		return nil, "", "", fmt.Errorf("read page of an owner in shard %d: %w", shard, err)
	}
	return entries, writePlace(answer[0], answer[1]), generation, nil
}

// readPage runs the script between two reads of the generation marker. The script can't read the marker: its keys must
// be writable by its user, and services may only read the marker. Each rebuild has another marker: if both reads return
// the same one, no rebuild ended and no memory was lost meanwhile.
func (x *Index) readPage(ctx context.Context, c *call) (generation string, err error) {
	gen := x.genKey(c.shard)
	read := func(send func(redis.Pipeliner) *redis.Cmd) {
		p := x.client.Pipeline()
		before := p.Get(ctx, gen)
		c.reply = send(p)
		after := p.Get(ctx, gen)
		if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			unsent([]*call{c}, err)
		}
		if generation = after.Val(); generation != before.Val() || !strings.HasPrefix(generation, complete) {
			generation = ""
		}
	}
	read(func(p redis.Pipeliner) *redis.Cmd { return p.EvalSha(ctx, c.script.sha, c.keys, c.args...) })
	if noScript(c.reply.Err()) {
		read(func(p redis.Pipeliner) *redis.Cmd { return p.Eval(ctx, c.script.text, c.keys, c.args...) })
	}
	return generation, x.failure([]*call{c})
}

// writePlace encodes the place after a member in a list.
func writePlace(score, member string) string {
	if score == "" {
		return ""
	}
	id := make([]byte, idBytes) // a member that is not ours may be shorter
	copy(id, member)
	return base64.RawURLEncoding.EncodeToString(append(id, score...))
}

// readPlace decodes a place, which may come from any client.
func readPlace(place string) (score, id string, err error) {
	if place == "" {
		return "", "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(place)
	if err == nil && len(raw) > idBytes && len(raw) < idBytes+40 {
		if _, err = strconv.ParseFloat(string(raw[idBytes:]), 64); err == nil {
			return string(raw[idBytes:]), string(raw[:idBytes]), nil
		}
	}
	return "", "", &task.FieldError{Field: "cursor", Problem: "must be one that a page before has given"}
}
