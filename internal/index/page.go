package index

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

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
	kind = part(kind)
	look := limit
	if kind != "" {
		look = max(limit, window)
	}
	c := &call{
		script: x.scripts.page, shard: shard, keys: []string{x.ownerKey(shard, owner), x.genKey(shard)},
		args: []any{score, id, kind, strconv.Itoa(limit), strconv.Itoa(look)},
	}
	if err := x.run(ctx, c); err != nil {
		return nil, "", "", err
	}
	answer, err := c.reply.StringSlice()
	if err == nil && (len(answer) < 3 || len(answer)%2 == 0) {
		err = fmt.Errorf("%d values", len(answer))
	}
	for i := 3; err == nil && i < len(answer); i += 2 {
		var s task.Score
		s, err = parseScore(answer[i+1])
		entries = append(entries, ofOwner(part(owner), decode(answer[i], float64(s))))
	}
	if err != nil {
		return nil, "", "", fmt.Errorf("read page of an owner in shard %d: %w", shard, err)
	}
	if strings.HasPrefix(answer[0], complete) {
		generation = answer[0]
	}
	return entries, writePlace(answer[1], answer[2]), generation, nil
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
