package consoleweb

import (
	"context"
	"net/url"
	"strings"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// shownPauses bounds the pauses of owners and kinds that System lists: handlers may have made thousands.
const shownPauses = 100

// askQueue asks whether to pause or resume a queue.
func askQueue(key string) func(ctx context.Context, v *visit) (question, error) {
	return func(ctx context.Context, v *visit) (question, error) {
		queue := v.r.FormValue("queue")
		q := question{Title: v.T(key, cleaned(queue)), Facts: []string{v.T("fact.workers")}, Back: "system"}
		if key == "ask.pause" {
			q.Inputs = []input{{"until", v.T("until"), "", v.T("hint.until")}}
			return q, checkQueue(ctx, v, queue)
		}
		return q, nil
	}
}

func doPause(ctx context.Context, v *visit) (answer, error) {
	if err := checkQueue(ctx, v, v.r.FormValue("queue")); err != nil {
		return answer{}, err
	}
	if v.r.FormValue("until") != "" {
		return doPauseTasks(ctx, v)
	}
	return queueAnswer(ctx, v, v.c.Pause, "did.pause", "did.paused")
}

func doResume(ctx context.Context, v *visit) (answer, error) {
	return queueAnswer(ctx, v, v.c.Resume, "did.resume", "did.resumed")
}

func queueAnswer(
	ctx context.Context, v *visit, do func(ctx context.Context, queue string) (bool, error), key, already string,
) (answer, error) {
	queue := v.r.FormValue("queue")
	changed, err := do(ctx, queue)
	if err != nil {
		return answer{}, err
	}
	if !changed {
		key = already
	}
	return answer{Text: v.T(key, cleaned(queue)), Back: "system"}, nil
}

// pauseOf is what the request names.
func pauseOf(v *visit) console.PauseOf {
	value := func(name string) string { return strings.TrimSpace(v.r.FormValue(name)) }
	return console.PauseOf{Queue: value("queue"), Kind: value("kind"), Owner: value("owner")}
}

// askPauseTasks asks for an owner or a kind, and for the end.
func askPauseTasks(_ context.Context, v *visit) (question, error) {
	of := pauseOf(v)
	return question{
		Title: v.T("ask.pause.tasks"), Facts: []string{v.T("fact.pause.tasks"), v.T("fact.workers")}, Back: "system",
		Inputs: []input{
			{"owner", v.T("owner"), of.Owner, v.T("hint.any")},
			{"kind", v.T("kind"), of.Kind, v.T("hint.any")},
			{"queue", v.T("queue"), of.Queue, v.T("hint.any")},
			{"until", v.T("until"), "", v.T("hint.time")},
		},
	}, nil
}

func doPauseTasks(ctx context.Context, v *visit) (answer, error) {
	until, err := parseTyped(v.r.FormValue("until"), v.now)
	if err != nil {
		return answer{}, err
	}
	of := pauseOf(v)
	ends, err := v.c.PauseUntil(ctx, of, task.At(until))
	switch {
	case err != nil:
		return answer{}, err
	case ends.IsZero():
		return answer{Text: v.T("did.paused", cleaned(of.Queue)), Back: "system"}, nil
	}
	return answer{Text: v.T("did.pause.tasks", cleaned(of.String()), v.At(ends.UnixMilli()).Text), Back: "system"}, nil
}

func askEndPause(_ context.Context, v *visit) (question, error) {
	of := pauseOf(v)
	return question{
		Title: v.T("ask.pause.end", cleaned(of.String())), Facts: []string{v.T("fact.pause.end")}, Back: "system",
		Hidden: url.Values{"owner": {of.Owner}, "kind": {of.Kind}, "queue": {of.Queue}},
	}, of.Check()
}

func doEndPause(ctx context.Context, v *visit) (answer, error) {
	of := pauseOf(v)
	changed, err := v.c.EndPause(ctx, of)
	if err != nil {
		return answer{}, err
	}
	key := "did.pause.end"
	if !changed {
		key = "did.pause.over"
	}
	return answer{Text: v.T(key, cleaned(of.String())), Back: "system"}, nil
}

// pauseWords are the words of pauses of owners and kinds.
func pauseWords() map[string]words {
	return map[string]words{
		"hint.until":      {"empty: until it is resumed; else 14:00, +2h", "留空：直到恢复；或 14:00、+2h"},
		"hint.any":        {"empty: all", "留空：全部"},
		"ask.pause.tasks": {"Pause tasks of an owner or a kind", "暂停某所有者或某类型的任务"},
		"ask.pause.end":   {"Resume %s?", "要恢复 %s 吗？"},
		"fact.pause.tasks": {
			"Those that come due until then are put off to that moment, and nothing is charged. Name an owner or a kind; a queue narrows it.",
			"在此之前到期的任务推迟到该时刻，不计尝试次数。请填写所有者或类型；队列用于缩小范围。",
		},
		"fact.pause.end": {
			"What was put off goes on within some seconds, while a daemon leads.", "有守护进程领导时，被推迟的任务会在几秒内继续。",
		},
		"pauses":      {"Paused owners and kinds", "已暂停的所有者与类型"},
		"pauses.none": {"None is paused.", "没有暂停。"},
		"pauses.more": {"There are more: duetime pause --list lists them.", "还有更多：duetime pause --list 可列出。"},
		"pausetasks":  {"Pause an owner or a kind", "暂停所有者或类型"},
	}
}
