package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

const (
	players  = 24 // clients at once, each with one call under way
	litter   = 5  // pets of one owner
	patience = 30 * time.Second
)

// crowd is all players, and what they were answered.
type crowd struct {
	sizes  sizes
	url    atomic.Pointer[string] // of the game process, which may be replaced
	client *http.Client
	owners []*owner

	stop chan struct{}
	done sync.WaitGroup

	mu    sync.Mutex
	calls []call
	wrong []string // answers that the API must never give
}

// call is one request that was answered, or got no answer.
type call struct {
	at     time.Time
	took   time.Duration
	status int // 0 without an answer
}

// owner has pets and one player, who writes down what was acknowledged.
type owner struct {
	name    string
	pets    []*animal
	acked   map[string]int // by journal event
	unknown map[string]int // given up without an answer: may have happened or not
	fed     []string       // tasks that feeding made
}

// animal is what a player knows of a pet.
type animal struct {
	id   string
	wait int       // rounds before its first meal, so that meals end spread over time
	due  time.Time // of the meal, as last answered; zero: not eating
}

// pet is the API's answer.
type pet struct {
	ID   string `json:"id"`
	Meal *struct {
		TaskID  string `json:"task_id"`
		DueAtMs int64  `json:"due_at_ms"`
	} `json:"meal"`
}

func newCrowd(s sizes, url string) *crowd {
	c := &crowd{
		sizes: s, stop: make(chan struct{}),
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: players}},
	}
	c.url.Store(&url)
	for i := range (s.pets + litter - 1) / litter {
		o := &owner{name: fmt.Sprintf("player-%d", i), acked: map[string]int{}, unknown: map[string]int{}}
		for j := range min(litter, s.pets-i*litter) {
			o.pets = append(o.pets, &animal{wait: (i*litter + j) % 4})
		}
		c.owners = append(c.owners, o)
	}
	return c
}

// each runs fn for every player with the owners that are his, and returns when all are through.
func (c *crowd) each(fn func(owners []*owner)) {
	hands := make([][]*owner, players)
	for i, o := range c.owners {
		hands[i%players] = append(hands[i%players], o)
	}
	for _, owners := range hands {
		c.done.Go(func() { fn(owners) })
	}
}

// adopt makes all pets.
func (c *crowd) adopt() {
	c.each(func(owners []*owner) {
		for _, o := range owners {
			for i, a := range o.pets {
				var made pet
				body := fmt.Sprintf(`{"owner":%q,"name":"pet-%d"}`, o.name, i)
				if c.change(o, "adopted", http.MethodPost, "/v1/pets", body, &made) == http.StatusCreated {
					a.id = made.ID
				}
			}
		}
	})
	c.done.Wait()
}

// play lets everybody play until end.
func (c *crowd) play() {
	c.each(func(owners []*owner) {
		pets := 0
		for _, o := range owners {
			pets += len(o.pets)
		}
		pace := c.sizes.meal / 4 / time.Duration(max(pets, 1))
		next := time.Now()
		for round := 0; ; round++ {
			for _, o := range owners {
				for _, a := range o.pets {
					next = next.Add(pace)
					if !c.pause(time.Until(next)) {
						return
					}
					c.visit(o, a, round)
				}
				c.visitOwner(o, round)
			}
			if late := time.Now(); late.After(next) {
				next = late // a slow machine makes fewer rounds, not a burst of them
			}
			if pets == 0 {
				return
			}
		}
	})
}

// end stops the players and waits until their last calls are answered.
func (c *crowd) end() {
	close(c.stop)
	c.done.Wait()
	c.client.CloseIdleConnections()
}

// pause waits for d and tells whether the game goes on.
func (c *crowd) pause(d time.Duration) bool {
	select {
	case <-c.stop:
		return false
	default:
	}
	if d <= 0 {
		return true
	}
	select {
	case <-c.stop:
		return false
	case <-time.After(d):
		return true
	}
}

// visit does one thing with a pet: feeds it when its meal is over, else perhaps plays a card or takes the meal away.
func (c *crowd) visit(o *owner, a *animal, round int) {
	if round < a.wait {
		return
	}
	path := "/v1/pets/" + a.id
	var answer pet
	if time.Now().After(a.due) {
		switch c.change(o, "fed", http.MethodPost, path+"/feed", "", &answer) {
		case http.StatusOK:
			o.fed = append(o.fed, answer.Meal.TaskID)
			a.see(answer)
		case http.StatusConflict: // an auto-feed card was quicker, or the meal is late
			if c.get(path, &answer) == http.StatusOK {
				a.see(answer)
			}
		}
		return
	}
	status := 0
	switch n := rand.IntN(100); {
	case n < 10:
		status = c.change(o, "sped_up", http.MethodPost, path+"/speedup", "", &answer)
	case n < 16:
		status = c.change(o, "autofeed_armed", http.MethodPost, path+"/autofeed", "", &answer)
	case n < 20:
		status = c.change(o, "meal_cancelled", http.MethodDelete, path+"/meal", "", &answer)
	}
	if status == http.StatusOK {
		a.see(answer)
	}
}

func (a *animal) see(p pet) {
	a.due = time.Time{}
	if p.Meal != nil {
		a.due = time.UnixMilli(p.Meal.DueAtMs)
	}
}

// visitOwner now and then speeds up all of an owner's pets, or looks at the list of their meals.
func (c *crowd) visitOwner(o *owner, round int) {
	if round < 4 {
		return
	}
	switch n := rand.IntN(100); {
	case n < 2:
		var answer struct{ Moved int }
		if c.change(o, "", http.MethodPost, "/v1/owners/"+o.name+"/speedup", "", &answer) == http.StatusOK {
			o.acked["sped_up"] += answer.Moved
		}
	case n < 6:
		var list struct{ Tasks []any }
		c.get("/v1/owners/"+o.name+"/tasks", &list)
	}
}

// change makes one change, repeated with the same Idempotency-Key until it is answered, and notes the answer.
func (c *crowd) change(o *owner, event, method, path, body string, out any) int {
	key := uuid.NewString()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		switch status := c.send(method, path, key, body, out); status {
		case http.StatusOK, http.StatusCreated:
			if event != "" {
				o.acked[event]++
			}
			return status
		case http.StatusConflict:
			return status
		case 0, http.StatusServiceUnavailable:
		default:
			c.complain("%s %s: %d", method, path, status)
			return status
		}
	}
	if event == "" {
		event = "sped_up" // of all the owner's pets
	}
	o.unknown[event]++
	return 0
}

func (c *crowd) get(path string, out any) int {
	status := c.send(http.MethodGet, path, "", "", out)
	if status != http.StatusOK && status != http.StatusServiceUnavailable && status != 0 {
		c.complain("GET %s: %d", path, status)
	}
	return status
}

// send makes one request and returns the status of its answer, 0 without one.
func (c *crowd) send(method, path, key, body string, out any) int {
	req, err := http.NewRequestWithContext(context.Background(), method, *c.url.Load()+path, strings.NewReader(body))
	if err != nil {
		c.complain("%v", err)
		return 0
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	began := time.Now()
	status, err := c.do(req, out)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call{began, time.Since(began), status})
	if err != nil && status != 0 {
		c.wrong = append(c.wrong, err.Error())
	}
	return status
}

func (c *crowd) do(req *http.Request, out any) (int, error) {
	res, err := c.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err // broken off: the same as none
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		var refusal struct {
			Error struct{ Code, Message string }
		}
		if json.Unmarshal(text, &refusal) != nil || refusal.Error.Code == "" {
			return res.StatusCode, fmt.Errorf("%s %s: %d without an error's code: %s", req.Method, req.URL.Path, res.StatusCode, text)
		}
		return res.StatusCode, nil
	}
	return res.StatusCode, errors.Join(json.Unmarshal(text, out))
}

func (c *crowd) complain(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// answers tells of the calls begun between two moments: how many there were by status, and the slowest.
func (c *crowd) answers(from, to time.Time) (byStatus map[int]int, slowest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	byStatus = map[int]int{}
	for _, k := range c.calls {
		if !k.at.Before(from) && k.at.Before(to) {
			byStatus[k.status]++
			slowest = max(slowest, k.took)
		}
	}
	return byStatus, slowest
}
