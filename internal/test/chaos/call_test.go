package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// What a call asks for. All but the last three are also the journal's word for its effect.
const (
	fed       = "fed"
	spedUp    = "sped_up"
	armed     = "autofeed_armed"
	cancelled = "meal_cancelled"
	created   = "created"
	hurried   = "owner_sped_up" // all meals of an owner
	postponed = "postponed"     // by the operator's tool
)

// call is one change that a player asked for, with its answer or the absence of one.
type call struct {
	op, owner, pet string
	began, ended   time.Time
	tries          int       // requests sent, all with the same Idempotency-Key
	last           time.Time // when the last of them was sent
	status         int       // of the answer; 0: none came, or 503: the change may have happened or not, once

	// What the answer told.
	task    string
	version int64
	due     int64 // Unix ms
	moved   int   // of hurried
}

// acked reports whether the change was acknowledged.
func (c call) acked() bool { return c.status == http.StatusOK || c.status == http.StatusCreated }

// open reports whether the change may have happened or not.
func (c call) open() bool { return c.status == 0 || c.status == http.StatusServiceUnavailable }

// petAnswer is what the game answers of a pet.
type petAnswer struct {
	ID   string `json:"id"`
	Meal *struct {
		TaskID  string `json:"task_id"`
		DueAtMs int64  `json:"due_at_ms"`
		Version int64  `json:"version"`
	} `json:"meal"`
	Moved int `json:"moved"` // of an owner's speed-up
}

// logbook keeps all calls, and every answer that the API must never give. It is safe for concurrent use.
type logbook struct {
	mu    sync.Mutex
	calls []call
	sent  []answer
	wrong []string
}

// answer is one request's.
type answer struct {
	at     time.Time
	took   time.Duration
	status int // 0: none
}

func (b *logbook) add(c call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, c)
}

func (b *logbook) answered(a answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent = append(b.sent, a)
}

func (b *logbook) complain(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
}

// all returns the calls so far, and what was wrong with answers.
func (b *logbook) all() ([]call, []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]call(nil), b.calls...), append([]string(nil), b.wrong...)
}

// answers tells of the requests sent between two moments: how many by status, and the slowest answer.
func (b *logbook) answers(from, to time.Time) (byStatus map[int]int, slowest time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	byStatus = map[int]int{}
	for _, a := range b.sent {
		if !a.at.Before(from) && a.at.Before(to) {
			byStatus[a.status]++
			slowest = max(slowest, a.took)
		}
	}
	return byStatus, slowest
}

// caller sends requests and logs each.
type caller struct {
	book   *logbook
	client *http.Client
	url    func() string // of the game, which may be replaced
}

// send makes one request and returns the status of its answer, 0 without one.
func (c *caller) send(method, path, key, body string) (int, petAnswer) {
	var out petAnswer
	req, err := http.NewRequestWithContext(context.Background(), method, c.url()+path, strings.NewReader(body))
	if err != nil {
		c.book.complain("%v", err)
		return 0, out
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	began := time.Now()
	status, text := c.do(req)
	c.book.answered(answer{began, time.Since(began), status})
	switch status {
	case 0:
	case http.StatusOK, http.StatusCreated:
		if err := json.Unmarshal(text, &out); err != nil {
			c.book.complain("%s %s: %v in %s", method, path, err, text)
		}
	case http.StatusConflict, http.StatusServiceUnavailable:
		var refusal struct {
			Error struct{ Code, Message string }
		}
		if json.Unmarshal(text, &refusal) != nil || refusal.Error.Code == "" {
			c.book.complain("%s %s: %d without an error's code: %s", method, path, status, text)
		}
	default:
		c.book.complain("%s %s: %d %s", method, path, status, text)
	}
	return status, out
}

// do returns status 0 when no whole answer came.
func (c *caller) do(req *http.Request) (int, []byte) {
	res, err := c.client.Do(req)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil
	}
	return res.StatusCode, text
}
