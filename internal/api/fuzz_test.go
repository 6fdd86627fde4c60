package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/api"
)

// FuzzHostileInput sends anything to any method, in any form, by any caller. What is not answered with OK has changed nothing, and
// no answer is a failure of the server.
func FuzzHostileInput(f *testing.F) {
	w := newWorld(f,
		callerOf("reader", api.RoleRead, nil, nil), callerOf("shop", api.RoleSchedule, []string{"shop-*"}, []string{"mail"}),
		callerOf("admin", api.RoleOperate, nil, nil))
	tokens := []string{"", tokenOf("reader"), tokenOf("shop"), tokenOf("admin")}
	forms := []string{"application/json", "application/proto", "application/grpc-web+proto", "application/grpc-web+json", "text/plain"}
	methods := procedures()
	for i, path := range methods {
		for _, body := range []string{
			`{}`, `{"task": {}}`, `{"taskId": "0192d3a0-0000-7000-8000-000000000000", "version": "-1", "by": "99999999999s"}`,
			`{"task": {"kind": "mail", "owner": "shop-\u0000", "dueIn": "1s"}}`,
			`{"task": {"kind": "mail", "owner": "shop-1", "dueAt": "9999-12-31T23:59:59Z", "payload": 1e308}}`,
			`{"tasks": [{"kind": "mail", "owner": "shop-1", "dueIn": "1s"}, {"kind": "mail", "owner": "' OR 1=1 --"}]}`,
			`{"owner": "shop-1", "name": "{}", "kind": "mail", "timetable": "cron UTC * * * * *", "policy": {"count": -1}}`,
			`{"operation": {"verb": "VERB_DISCARD", "filter": {"ownerPrefix": "%"}, "rate": -5, "matched": "-7"}}`,
			`{"cursor": "r9223372036854775807_0192d3a0-0000-7000-8000-000000000000", "limit": 1}`,
			"\x00\x00\x00\x00\x02{}", "\x01\xff\xff\xff\xff", strings.Repeat("[", 20_000), `{"task": {"payload": ` + strings.Repeat("[", 9_990),
		} {
			f.Add(body, i, i%len(forms), 2+i%2)
		}
		if path == "" {
			f.Fatal("no path")
		}
	}
	f.Fuzz(func(t *testing.T, body string, method, form, token int) {
		path := methods[uint(method)%uint(len(methods))]
		if strings.HasSuffix(path, "/Watch") && uint(form)%5 < 2 {
			return // a stream has forms of its own
		}
		before := w.state(t)
		status, answer := w.post(t, path, forms[uint(form)%uint(len(forms))], tokens[uint(token)%uint(len(tokens))], body)
		said := fmt.Sprintf("%s: status %d, %q", path, status, answer)
		if status >= http.StatusInternalServerError && status != http.StatusNotImplemented || strings.Contains(answer, "internal") ||
			strings.Contains(strings.ToLower(answer), "grpc-status: 13") || strings.Contains(strings.ToLower(answer), "grpc-status: 2\r") {
			t.Error(said)
		}
		ok := status == http.StatusOK && (!strings.HasPrefix(forms[uint(form)%uint(len(forms))], "application/grpc-web") ||
			strings.Contains(strings.ToLower(answer), "grpc-status: 0"))
		if after := w.state(t); !ok && after != before {
			t.Errorf("%s; %v became %v", said, before, after)
		}
	})
}
