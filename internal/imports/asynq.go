package imports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Asynq is the scheduled set of a queue of hibiken/asynq, as v0.26 lays it out. Each member is the id of a task, whose hash
// has its message, its state and its group. Other sets of the queue (pending, active, retry, archived) are not read.
type Asynq struct {
	Queue string
	Types map[string]Kind // the kind of each type of asynq's
}

var _ Source = (*Asynq)(nil)

// String names the queue.
func (a *Asynq) String() string { return "asynq queue " + a.Queue }

// Kinds returns the kinds of all types.
func (a *Asynq) Kinds() []Kind { return slices.Collect(maps.Values(a.Types)) }

func (a *Asynq) prefix() string          { return "asynq:{" + a.Queue + "}:" }
func (a *Asynq) set() string             { return a.prefix() + "scheduled" }
func (a *Asynq) hash(name string) string { return a.prefix() + "t:" + name }
func (a *Asynq) name() []string          { return []string{"asynq", a.Queue} }

func (*Asynq) prepare(context.Context, redis.Cmdable) error { return nil }

func (*Asynq) due(score float64) (time.Time, error) { return moment(score, UnitSeconds) }

func (*Asynq) score(due time.Time) float64 { return float64(due.UnixMicro()) / UnitSeconds.micros() }

const (
	hashesPerCall  = 100 // a message may have megabytes, which duetime refuses and Redis sends all the same
	stateScheduled = "scheduled"
)

func (a *Asynq) read(ctx context.Context, from redis.Cmdable, members []member) ([]reading, error) {
	readings := make([]reading, 0, len(members))
	for part := range slices.Chunk(members, hashesPerCall) {
		answers := make([]*redis.SliceCmd, len(part))
		_, err := from.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, m := range part {
				answers[i] = p.HMGet(ctx, a.hash(m.name), "msg", "state", "group")
			}
			return nil
		})
		if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil, err
		}
		for i, m := range part {
			read, err := a.readOne(ctx, from, m, answers[i])
			if err != nil {
				return nil, err
			}
			readings = append(readings, read)
		}
	}
	return readings, nil
}

// readOne reads a member by its hash. The error is Redis's.
func (a *Asynq) readOne(ctx context.Context, from redis.Cmdable, m member, answer *redis.SliceCmd) (reading, error) {
	read := reading{member: m.name, owner: m.name}
	values, err := answer.Result()
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		read.err = fmt.Errorf("%s is no hash", a.hash(m.name))
		return read, nil
	}
	if err != nil {
		return read, err
	}
	text := func(i int) string { s, _ := values[i].(string); return s }
	msg, state, group := text(0), text(1), text(2)
	switch {
	case msg == "":
		// A worker that has finished the task has deleted the hash, and before that the member.
		err := from.ZScore(ctx, a.set(), m.name).Err()
		if errors.Is(err, redis.Nil) {
			read.left = true
			return read, nil
		}
		read.err = fmt.Errorf("%s has no message", a.hash(m.name))
		return read, err
	case state != stateScheduled:
		read.left = true // a worker has it
	case group != "":
		read.err = fmt.Errorf("is one of group %q, which asynq gathers into one task", group)
	default:
		a.decode(&read, m, []byte(msg))
	}
	return read, nil
}

// decode sets what a message says.
func (a *Asynq) decode(read *reading, m member, encoded []byte) {
	msg, err := decodeMessage(encoded)
	kind, known := a.Types[msg.kind]
	switch {
	case err != nil:
		read.err = fmt.Errorf("decode its message: %w", err)
	case msg.id != m.name:
		read.err = fmt.Errorf("its message is that of task %q", msg.id)
	case !known:
		read.err = fmt.Errorf("type %q has no kind", msg.kind)
	case len(msg.payload) > 0 && !json.Valid(msg.payload):
		read.err = fmt.Errorf("its payload of type %q is no JSON", msg.kind)
	default:
		read.kind, read.payload = kind, msg.payload
		read.due, read.err = a.due(m.score)
	}
}
