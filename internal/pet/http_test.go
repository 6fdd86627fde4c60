package pet_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestRequestsAreChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	w.create("ann")
	long := strings.Repeat("x", 65)
	for _, c := range []struct {
		method, path, body string
		status             int
		code, field        string
	}{
		{"POST", "/v1/pets", `{"name":"x"}`, 400, "invalid", "owner"},
		{"POST", "/v1/pets", `{"owner":"x"}`, 400, "invalid", "name"},
		{"POST", "/v1/pets", `{"owner":"","name":"x"}`, 400, "invalid", "owner"},
		{"POST", "/v1/pets", `{"owner":"` + long + `","name":"x"}`, 400, "invalid", "owner"},
		{"POST", "/v1/pets", `{"owner":"x","name":"` + long + `"}`, 400, "invalid", "name"},
		{"POST", "/v1/pets", `{"owner":"a b","name":"x"}`, 400, "invalid", "owner"},
		{"POST", "/v1/pets", `{"owner":"a{b}","name":"x"}`, 400, "invalid", "owner"},
		{"POST", "/v1/pets", `{"owner":"a\u202eb","name":"x"}`, 400, "invalid", "owner"},
		{"POST", "/v1/pets", `{"owner":"` + strings.Repeat("猫", 22) + `","name":"x"}`, 400, "invalid", "owner"},
		{"POST", "/v1/pets", `{"owner":"x","name":"` + strings.Repeat("猫", 65) + `"}`, 400, "invalid", "name"},
		{"POST", "/v1/pets", `{"owner":"x","name":"a\u202eb"}`, 400, "invalid", "name"},
		{"POST", "/v1/pets", `{"owner":"x","name":"a\nb"}`, 400, "invalid", "name"},
		{"POST", "/v1/pets", `{"owner":"x","name":" x"}`, 400, "invalid", "name"},
		{"POST", "/v1/pets", `{"owner":"x\n","name":"x"}`, 400, "invalid", "owner"},
		{"POST", "/v1/pets", `{"owner":7,"name":"x"}`, 400, "invalid", "owner"},
		{"POST", "/v1/pets", `{"owner":null,"name":"x"}`, 400, "invalid", "owner"},
		{"POST", "/v1/pets", `{"owner":"x","name":["x"]}`, 400, "invalid", "name"},
		{"POST", "/v1/pets", `{"owner":"x","name":"x","food":1000}`, 400, "invalid", "food"},
		{"POST", "/v1/pets", `{"Owner":"x","name":"x"}`, 400, "invalid", "Owner"},
		{"POST", "/v1/pets", ``, 400, "invalid", "body"},
		{"POST", "/v1/pets", `null`, 400, "invalid", "body"},
		{"POST", "/v1/pets", `[]`, 400, "invalid", "body"},
		{"POST", "/v1/pets", `{"owner":"x","name":"x"}{}`, 400, "invalid", "body"},
		{"POST", "/v1/pets", `{"owner":"x","name":`, 400, "invalid", "body"},
		{"POST", "/v1/pets/1/feed", `{"food":3}`, 400, "invalid", "food"},
		{"POST", "/v1/pets/1/speedup", `[]`, 400, "invalid", "body"},
		{"POST", "/v1/pets/1/autofeed", `null`, 400, "invalid", "body"},
		{"DELETE", "/v1/pets/1/meal", `{"a":1}`, 400, "invalid", "a"},
		{"POST", "/v1/owners/ann/speedup", `{"a":1}`, 400, "invalid", "a"},
		{"POST", "/v1/owners/" + long + "/speedup", ``, 400, "invalid", "owner"},
		{"GET", "/v1/owners/" + long + "/tasks", ``, 400, "invalid", "owner"},
		{"GET", "/v1/pets?owner=" + long, ``, 400, "invalid", "owner"},
		{"GET", "/v1/pets?limit=0", ``, 400, "invalid", "limit"},
		{"GET", "/v1/journal?limit=201", ``, 400, "invalid", "limit"},
		{"GET", "/v1/journal?limit=x", ``, 400, "invalid", "limit"},
		{"GET", "/v1/pets/x", ``, 400, "invalid", "id"},
		{"GET", "/v1/pets/-1", ``, 400, "invalid", "id"},
		{"GET", "/v1/pets/+1", ``, 400, "invalid", "id"},
		{"GET", "/v1/pets/1.0", ``, 400, "invalid", "id"},
		{"GET", "/v1/pets/0x1", ``, 400, "invalid", "id"},
		{"GET", "/v1/pets/%D9%A1", ``, 400, "invalid", "id"},
		{"POST", "/v1/pets/x/feed", ``, 400, "invalid", "id"},
		{"GET", "/v1/pets/0", ``, 404, "not_found", ""},
		{"GET", "/v1/pets/01", ``, 404, "not_found", ""},
		{"GET", "/v1/pets/99", ``, 404, "not_found", ""},
		{"GET", "/v1/pets/9223372036854775807", ``, 404, "not_found", ""},
		{"GET", "/v1/pets/9223372036854775808", ``, 404, "not_found", ""},
		{"POST", "/v1/pets/99/feed", ``, 404, "not_found", ""},
		{"POST", "/v1/pets/99/speedup", `{}`, 404, "not_found", ""},
		{"POST", "/v1/pets/99/autofeed", ``, 404, "not_found", ""},
		{"DELETE", "/v1/pets/99/meal", ``, 404, "not_found", ""},
		{"GET", "/", ``, 404, "not_found", ""},
		{"PUT", "/v1/pets", ``, 404, "not_found", ""},
		{"GET", "/v1/pets/", ``, 404, "not_found", ""},
		{"GET", "/v1/pets/1/", ``, 404, "not_found", ""},
		{"GET", "/v1//pets/1", ``, 404, "not_found", ""},
		{"GET", "/v1/owners/../pets/1", ``, 404, "not_found", ""},
		{"GET", "/v1/pets/1/feed", ``, 404, "not_found", ""},
		{"PUT", "/v1/pets/1", `{}`, 404, "not_found", ""},
		{"POST", "/v1/pets/1/dance", ``, 404, "not_found", ""},
		{"POST", "/v1/pets", strings.Repeat(" ", 64<<10+1), 413, "too_large", ""},
		{"POST", "/v1/pets/1/feed", strings.Repeat(" ", 64<<10+1), 413, "too_large", ""},
		{"DELETE", "/v1/pets/1/meal", strings.Repeat(" ", 64<<10+1), 413, "too_large", ""},
	} {
		t.Run(c.method+" "+c.path+" "+c.body[:min(len(c.body), 30)], func(t *testing.T) {
			world := *w
			world.t = t
			world.refused(world.do(c.method, c.path, c.body), c.status, c.code, c.field)
		})
	}
	if lines := w.journal("1"); len(lines) != 0 {
		t.Errorf("refused requests left lines: %+v", lines)
	}
}

func TestRequestsAtTheLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	all := "ABCXYZabcxyz0189._:-é小猫" + strings.Repeat("x", 36)
	body := `{"owner":"` + all + `","name":"` + all + `"}`
	body += strings.Repeat(" ", 64<<10-len(body))
	if got := w.do("POST", "/v1/pets", body); got.status != http.StatusCreated {
		t.Errorf("the longest owner, name and body: %+v", got)
	}
	for _, name := range []string{strings.Repeat("猫", 64), strings.Repeat("🐈", 64), "Señor Whiskers", "نمر", "நாய்", "🏳\u200d🌈", "<b>&amp;"} {
		got := want[pet.Pet](w, w.do("POST", "/v1/pets", `{"owner":"小明","name":"`+name+`"}`), http.StatusCreated)
		if seen := w.see(got.ID); seen.Name != name {
			t.Errorf("the name %q became %q", name, seen.Name)
		}
	}
	// A refusal says how long the text is, and how long it may be.
	for field, limits := range map[string][2]string{"owner": {"66 bytes", "64"}, "name": {"65 characters", "64"}} {
		texts := map[string]string{"owner": "x", "name": "x"}
		texts[field] = strings.Repeat("猫", map[string]int{"owner": 22, "name": 65}[field])
		got := w.do("POST", "/v1/pets", fmt.Sprintf(`{"owner":%q,"name":%q}`, texts["owner"], texts["name"]))
		if !strings.Contains(got.body, limits[0]) || !strings.Contains(got.body, limits[1]) {
			t.Errorf("a long %s: %s", field, got.body)
		}
	}
	for _, empty := range []string{"", " ", "{}", " { } "} {
		id := w.create("ann").ID
		if got := w.do("POST", "/v1/pets/"+id+"/feed", empty); got.status != http.StatusOK {
			t.Errorf("body %q: %+v", empty, got)
		}
	}
}

// An incomplete body is the client's fault, and changes nothing.
func TestBrokenBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	id := w.create("ann").ID
	server := httptest.NewServer(w.api)
	defer server.Close()
	for name, body := range map[string]string{
		"bad chunk": "Transfer-Encoding: chunked\r\n\r\nnonsense\r\n",
		"cut off":   "Content-Length: 100\r\n\r\n{}",
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		pipelinetest.Must(t, err)
		_, err = io.WriteString(conn, "POST /v1/pets/"+id+"/feed HTTP/1.1\r\nHost: game\r\n"+body)
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, conn.(*net.TCPConn).CloseWrite())
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		pipelinetest.Must(t, err)
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d", name, res.StatusCode)
		}
		pipelinetest.Must(t, res.Body.Close())
		pipelinetest.Must(t, conn.Close())
	}
	if p := w.see(id); p.Food != 100 {
		t.Errorf("fed: %+v", p)
	}
}
