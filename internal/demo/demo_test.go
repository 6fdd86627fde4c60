package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/duetime/duetime/internal/pet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDemoKeepsItsPromisesAndReports(t *testing.T) {
	t.Parallel()
	var out, progress bytes.Buffer
	began := time.Now()
	err := Run(t.Context(), Config{For: minFor, Pets: 8, Meal: 500 * time.Millisecond, Out: &out, Err: &progress, JSON: true})
	if err != nil {
		t.Fatalf("Run: %v\n%s", err, out.String())
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %v, want at most a minute", took)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var r report
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		t.Fatal(err)
	}
	if r.Lost+r.Duplicate+r.Early != 0 || r.MealsFinished == 0 || r.Moved == 0 || r.AutoFed == 0 || len(r.Faults) != restarts {
		t.Errorf("report %+v", r)
	}
	if !strings.Contains(progress.String(), "http://127.0.0.1:") {
		t.Errorf("progress does not name the API: %s", progress.String())
	}
}

// After the report the game goes on by other rules, with its page and the console, until it is interrupted.
func TestDemoGoesOn(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Config{For: minFor, Pets: 8, Meal: 500 * time.Millisecond, Out: io.Discard, Err: write, Serve: true})
		_ = write.Close()
	}()
	lines := bufio.NewScanner(read)
	defer func() {
		interrupt()
		for lines.Scan() {
			continue
		}
		if err := <-ended; err != nil {
			t.Errorf("interrupted: %v", err)
		}
	}()
	url := ""
	for url == "" && lines.Scan() {
		if _, at, goesOn := strings.Cut(lines.Text(), "play at "); goesOn {
			url, _, _ = strings.Cut(at, " ")
		}
	}
	for path, part := range map[string]string{"": "<title>", "v1/pets": `"meal_ms":60000`, "v1/judge": `"lost":0,"doubled":0,"early":0`, "console/now": "<title>", "console/system": "default"} {
		if status, body := ask(ctx, t, http.MethodGet, url+path, ""); status != http.StatusOK || !strings.Contains(body, part) {
			t.Errorf("%s: %d, want %q in it: %s", path, status, part, body)
		}
	}
	killsTheWorker(ctx, t, url)
}

// A worker that is killed ends no meal until another one is started, which ends what is late once.
func killsTheWorker(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	_, made := ask(ctx, t, http.MethodPost, url+"v1/pets", `{"owner":"ann","name":"tom"}`)
	var tom struct{ ID string }
	if err := json.Unmarshal([]byte(made), &tom); err != nil {
		t.Fatal(err)
	}
	meal := func(method, path string) {
		t.Helper()
		if status, body := ask(ctx, t, method, url+"v1/pets/"+tom.ID+path, ""); status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, status, body)
		}
	}
	now := func(part string) bool {
		_, body := ask(ctx, t, http.MethodGet, url+"v1/now?owner=ann", "")
		return strings.Contains(body, part)
	}
	meal(http.MethodPost, "/feed")
	if status, body := ask(ctx, t, http.MethodPost, url+"v1/lessons/kill", ""); status != http.StatusOK || !strings.Contains(body, `"alive":false`) {
		t.Errorf("kill: %d %s", status, body)
	}
	if status, body := ask(ctx, t, http.MethodPost, url+"v1/lessons/kill", ""); status != http.StatusConflict && !now(`"alive":true`) {
		t.Errorf("kill twice: %d %s", status, body)
	}
	for range servedMeal / servedSpeedup {
		meal(http.MethodPost, "/speedup")
	}
	for deadline := time.Now().Add(time.Minute); !now(`"alive":true`) || !now(`"times":1`); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the meal does not end")
		}
	}
	if _, body := ask(ctx, t, http.MethodGet, url+"v1/judge", ""); !strings.Contains(body, `"lost":0,"doubled":0,"early":0`) {
		t.Errorf("judged %s", body)
	}
}

func ask(ctx context.Context, t *testing.T, method, url, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func TestTableNamesEveryCount(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := report{MealsFinished: 7, Lost: 1, Faults: []fault{{Kind: "restart", HealMs: 12}}}
	if err := r.write(&out, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"meals finished", "moved", "cancelled", "auto-fed", "lost", "duplicate", "early", "restart healed after", "lag p50 / p99 / max"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if !r.broken() {
		t.Error("a lost meal does not count as a broken promise")
	}
}

func TestLagsLeaveTheFaultsOut(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli
	p50, p99, most := lags([]pet.Firing{
		{DueAt: at(1000), MadeAt: at(0), At: at(1010)},
		{DueAt: at(1000), MadeAt: at(1008), At: at(1010)}, // made after its due time
		{DueAt: at(5000), MadeAt: at(0), At: at(9000)},    // during the fault
	}, []fault{{began: at(4900), healed: at(6000)}})
	if p50 != 10 || p99 != 10 || most != 10 {
		t.Errorf("lags %v %v %v, want 10 each", p50, p99, most)
	}
}

func TestValidateNamesTheFlag(t *testing.T) {
	t.Parallel()
	good := Config{For: 30 * time.Second, Pets: 10, Meal: time.Second}
	for flag, change := range map[string]func(*Config){
		"--for":  func(c *Config) { c.For = 9 * time.Second },
		"--pets": func(c *Config) { c.Pets = 0 },
		"--meal": func(c *Config) { c.Meal = 11 * time.Second },
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("Validate with a bad %s: %v", flag, err)
		}
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}
