package imports

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestAsynqReadsEachMember(t *testing.T) {
	t.Parallel()
	client, queue := server(t)
	ctx := t.Context()
	due := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	kind, err := NewKind("mail.send", "mails", 3)
	pipelinetest.Must(t, err)
	a := &Asynq{Queue: queue, Types: map[string]Kind{"mail": kind, "ping": kind}}
	tasks := map[string]pipelinetest.AsynqTask{
		"plain": {Type: "mail", Payload: []byte(`{"to":"ann"}`)}, "empty": {Type: "ping"},
		"text": {Type: "mail", Payload: []byte("hello")}, "other": {Type: "push", Payload: []byte(`{}`)},
		"group": {Type: "mail"}, "pending": {Type: "mail"}, "nohash": {Type: "mail"}, "nomsg": {Type: "mail"}, "nothash": {Type: "mail"},
		"garbage": {Type: "mail"}, "swapped": {Type: "mail"}, "finished": {Type: "mail"},
	}
	names := []string{"plain", "empty", "text", "other", "group", "pending", "nohash", "nomsg", "nothash", "garbage", "swapped", "finished"}
	var members []member
	for _, name := range names {
		v := tasks[name]
		v.ID, v.Due = name, due
		pipelinetest.ScheduleAsynq(t, client, queue, v)
		members = append(members, member{name, float64(due.Unix())})
	}
	pipelinetest.Must(t, client.HSet(ctx, a.hash("group"), "group", "digest").Err())
	pipelinetest.Must(t, client.HSet(ctx, a.hash("pending"), "state", "pending").Err())
	pipelinetest.Must(t, client.Del(ctx, a.hash("nohash"), a.hash("nothash"), a.hash("finished")).Err())
	pipelinetest.Must(t, client.HDel(ctx, a.hash("nomsg"), "msg").Err())
	pipelinetest.Must(t, client.Set(ctx, a.hash("nothash"), "x", 0).Err())
	pipelinetest.Must(t, client.HSet(ctx, a.hash("garbage"), "msg", "\xff\xff\xff").Err())
	pipelinetest.Must(t, client.HSet(ctx, a.hash("swapped"), "msg", pipelinetest.AsynqTask{Type: "mail", ID: "x"}.Message(queue)).Err())
	pipelinetest.Must(t, client.ZRem(ctx, a.set(), "finished").Err())

	got, err := a.read(ctx, client, members)
	pipelinetest.Must(t, err)
	what := map[string]string{}
	for _, read := range got {
		switch {
		case read.left:
			what[read.member] = "left"
		case read.err != nil:
			what[read.member] = "unreadable: " + strings.ReplaceAll(read.err.Error(), queue, "Q")
		default:
			what[read.member] = read.kind.Name() + " of " + read.owner + " at " + read.due.Format(time.RFC3339) + ": " + string(read.payload)
		}
	}
	want := map[string]string{
		"plain":    `mail.send of plain at 2030-01-02T03:04:05Z: {"to":"ann"}`,
		"empty":    `mail.send of empty at 2030-01-02T03:04:05Z: `,
		"text":     `unreadable: its payload of type "mail" is no JSON`,
		"other":    `unreadable: type "push" has no kind`,
		"group":    `unreadable: is one of group "digest", which asynq gathers into one task`,
		"pending":  "left",
		"nohash":   "unreadable: asynq:{Q}:t:nohash has no message",
		"nomsg":    "unreadable: asynq:{Q}:t:nomsg has no message",
		"nothash":  "unreadable: asynq:{Q}:t:nothash is no hash",
		"garbage":  "unreadable: decode its message: unexpected EOF",
		"swapped":  `unreadable: its message is that of task "x"`,
		"finished": "left",
	}
	if diff := cmp.Diff(want, what); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
