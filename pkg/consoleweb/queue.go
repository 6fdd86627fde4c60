package consoleweb

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/duetime/duetime/pkg/console"
)

func askAddQueue(_ context.Context, v *visit) (question, error) {
	return question{
		Title: v.T("ask.queue.add"), Facts: []string{v.T("fact.queue.add")}, Back: "system",
		Inputs: []input{{"queue", v.T("queue"), v.r.FormValue("queue"), v.T("hint.queue.add")}},
	}, nil
}

func doAddQueue(ctx context.Context, v *visit) (answer, error) {
	queue := strings.TrimSpace(v.r.FormValue("queue"))
	added, err := v.c.AddQueue(ctx, queue)
	if err != nil {
		return answer{}, err
	}
	key := "did.queue.add"
	if !added {
		key = "did.queue.there"
	}
	return answer{Text: v.T(key, cleaned(queue)), Back: "system"}, nil
}

func askRetireQueue(_ context.Context, v *visit) (question, error) {
	queue := v.r.FormValue("queue")
	return question{
		Title: v.T("ask.queue.retire", cleaned(queue)), Facts: []string{v.T("fact.queue.retire")}, Back: "system", Hidden: url.Values{"queue": {queue}},
	}, nil
}

func doRetireQueue(ctx context.Context, v *visit) (answer, error) {
	queue := v.r.FormValue("queue")
	err := v.c.RetireQueue(ctx, queue)
	if _, used := errors.AsType[*console.QueueUsedError](err); used {
		err = fmt.Errorf("%w: %w", errMistake, err)
	}
	if err != nil {
		return answer{}, err
	}
	return answer{Text: v.T("did.queue.retire", cleaned(queue)), Back: "system"}, nil
}

// queueWords are the words of queues that are added and retired.
func queueWords() map[string]words {
	return map[string]words{
		"addqueue":       {"Add a queue", "添加队列"},
		"retire":         {"retire", "停用"},
		"ask.queue.add":  {"Add a queue", "添加队列"},
		"hint.queue.add": {"letters, digits or . _ -", "字母、数字或 . _ -"},
		"fact.queue.add": {
			"Services may schedule into it at once; start workers with handlers for it.",
			"服务可立即向其安排任务；请启动带有相应处理程序的工作进程。",
		},
		"did.queue.add":    {"The queue %s is added.", "已添加队列 %s。"},
		"did.queue.there":  {"The queue %s is there already; nothing was changed.", "队列 %s 已存在，未作修改。"},
		"ask.queue.retire": {"Retire the queue %s?", "要停用队列 %s 吗？"},
		"fact.queue.retire": {
			"Only a queue that nothing uses is retired. Its limits and pauses end with it; its topic stays.",
			"仅停用无任何使用的队列。其限制与暂停一并结束；其主题保留。",
		},
		"did.queue.retire": {"The queue %s is retired.", "已停用队列 %s。"},
	}
}
