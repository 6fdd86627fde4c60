package index

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/pkg/task"
)

// window is how many members of an owner's set one call looks at: Redis answers nobody else meanwhile, for a millisecond or
// two.
const window = 1000

// OwnerPage lists up to limit (1 … task.MaxPerCall) of the owner's pending tasks, of one kind or ("") of any, by their next
// try. An empty place begins; each answer's next one continues, and an empty one ends. A page of one kind may be short, or
// empty, before the end. Generation names the memory that the page is of: it is empty while the shard's was lost and not yet
// rebuilt, when tasks may be lacking, and pages of two generations don't make one list.
func (x *Index) OwnerPage(
	ctx context.Context, shard int, owner, kind, place string, limit int,
) (entries []task.Entry, next, generation string, err error) {
	score, id, err := readPlace(place)
	if err != nil {
		return nil, "", "", err
	}
	look := limit
	if kind != "" { // else of any kind
		kind = part(kind)
		look = max(limit, window)
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
		var s task.Score
		s, err = parseScore(answer[i+1])
		entries = append(entries, ofOwner(part(owner), decode(answer[i], float64(s))))
	}
	if err != nil {
		return nil, "", "", fmt.Errorf("read page of an owner in shard %d: %w", shard, err)
	}
	return entries, writePlace(answer[0], answer[1]), generation, nil
}

// readPage runs the script between two looks at the generation marker, which services may only read, and scripts' keys must be
// written by who runs them. Each rebuild has a marker of its own: where both looks see the same one, none ended meanwhile, and
// no memory was lost.
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

// writePlace makes the place of a member in a list.
func writePlace(score, member string) string {
	if score == "" {
		return ""
	}
	id := make([]byte, idBytes) // a member that is none of ours may be shorter
	copy(id, member)
	return base64.RawURLEncoding.EncodeToString(append(id, score...))
}

// readPlace takes a place apart. It may come from anybody.
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

// Owner lists all of the owner's pending tasks by their next try, in windows. An owner without any has an empty list. Whole is
// false from when the shard lost its memory until it was rebuilt: the list may lack tasks then.
func (x *Index) Owner(ctx context.Context, shard int, owner string) (entries []task.Entry, whole bool, err error) {
	place, whole := "", true
	for first := ""; ; {
		some, next, generation, err := x.OwnerPage(ctx, shard, owner, "", place, window)
		if err != nil {
			return nil, false, fmt.Errorf("list owner: %w", err)
		}
		if place == "" {
			first = generation
		}
		whole = whole && generation != "" && generation == first
		entries = append(entries, some...)
		if place = next; place == "" {
			return entries, whole, nil
		}
	}
}
