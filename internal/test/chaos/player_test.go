package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

const (
	players  = 48 // clients at once, each with one call under way
	litter   = 5  // pets of one owner
	patience = 15 * time.Second
	cards    = 1_000_000 // of each sort, and food, that a pet starts with: enough for hours
)

// crowd is all players. An owner's pets belong to one player, who calls one after the other: so an owner's calls have an
// order, and only those without an answer may still be under way.
type crowd struct {
	logbook
	caller

	rate   int // calls a second of all players together
	owners []*owner
	game   atomic.Pointer[string]
	skew   atomic.Int64 // of the database's clock against ours, in ms

	stop chan struct{}
	done sync.WaitGroup
}

// owner has pets.
type owner struct {
	name string
	pets []*animal
}

// animal is what its player knows of a pet.
type animal struct {
	id     string    // empty: not made yet
	due    time.Time // of the meal, as last answered, on the database's clock; zero: not eating
	unsure bool      // a call had no answer: look before the next
}

func newCrowd(pets, rate int, url string) *crowd {
	c := &crowd{rate: rate, stop: make(chan struct{})}
	c.game.Store(&url)
	c.caller = caller{
		book: &c.logbook, url: func() string { return *c.game.Load() },
		client: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: players}},
	}
	for i := range (pets + litter - 1) / litter {
		o := &owner{name: fmt.Sprintf("player-%d", i)}
		for range min(litter, pets-i*litter) {
			o.pets = append(o.pets, &animal{})
		}
		c.owners = append(c.owners, o)
	}
	return c
}

// play lets everybody play until end.
func (c *crowd) play() {
	hands := make([][]*owner, players)
	for i, o := range c.owners {
		hands[i%players] = append(hands[i%players], o)
	}
	for _, owners := range hands {
		if len(owners) > 0 {
			c.done.Go(func() { c.hand(owners) })
		}
	}
}

// hand is one player: a call at each tick, for one pet after the other. A slow answer costs ticks; they are not made up.
func (c *crowd) hand(owners []*owner) {
	tick := time.NewTicker(time.Second * players / time.Duration(c.rate))
	defer tick.Stop()
	for {
		for _, o := range owners {
			for _, a := range o.pets {
				select {
				case <-c.stop:
					return
				case <-tick.C:
				}
				c.visit(o, a)
			}
		}
	}
}

// end stops the players and waits until their last calls are answered.
func (c *crowd) end() {
	close(c.stop)
	c.done.Wait()
	c.client.CloseIdleConnections()
}

func (c *crowd) ended() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// now is the database's time.
func (c *crowd) now() time.Time {
	return time.Now().Add(time.Duration(c.skew.Load()) * time.Millisecond)
}

// visit does one thing with a pet: makes it, feeds it when its meal is over, else plays a card or takes the meal away.
func (c *crowd) visit(o *owner, a *animal) {
	path := "/v1/pets/" + a.id
	switch {
	case a.id == "":
		c.change(o, a, created, http.MethodPost, "/v1/pets", fmt.Sprintf(`{"owner":%q,"name":"pet"}`, o.name))
	case a.unsure:
		c.look(a)
	case c.now().After(a.due):
		if c.change(o, a, fed, http.MethodPost, path+"/feed", "") == http.StatusConflict {
			c.look(a) // an auto-feed card was quicker, or the meal is late
		}
	default:
		c.meddle(o, a, path)
	}
}

// meddle changes a meal that is going on.
func (c *crowd) meddle(o *owner, a *animal, path string) {
	status := 0
	switch n := rand.IntN(100); {
	case n < 60:
		status = c.change(o, a, spedUp, http.MethodPost, path+"/speedup", "")
	case n < 83:
		status = c.change(o, a, armed, http.MethodPost, path+"/autofeed", "")
	case n < 97:
		status = c.change(o, a, cancelled, http.MethodDelete, path+"/meal", "")
	default:
		status = c.change(o, nil, hurried, http.MethodPost, "/v1/owners/"+o.name+"/speedup", "")
		for _, other := range o.pets {
			other.unsure = true // all have moved
		}
	}
	if status == http.StatusConflict {
		a.unsure = true // the meal has ended meanwhile
	}
}

func (c *crowd) look(a *animal) {
	if status, p := c.send(http.MethodGet, "/v1/pets/"+a.id, "", ""); status == http.StatusOK {
		a.see(p)
	}
}

func (a *animal) see(p petAnswer) {
	a.id, a.due, a.unsure = p.ID, time.Time{}, false
	if p.Meal != nil {
		a.due = time.UnixMilli(p.Meal.DueAtMs)
	}
}

// change asks for one change and logs it. Seven of ten players repeat a call without an answer, with the same
// Idempotency-Key, until they lose patience; the others never ask again.
func (c *crowd) change(o *owner, a *animal, op, method, path, body string) int {
	k := call{op: op, owner: o.name, began: time.Now()}
	if a != nil {
		k.pet = a.id
	}
	key, stubborn := uuid.NewString(), rand.IntN(10) < 7
	var p petAnswer
	for deadline := k.began.Add(patience); ; time.Sleep(50 * time.Millisecond) {
		k.tries++
		k.last = time.Now()
		k.status, p = c.send(method, path, key, body)
		if !k.open() || !stubborn || c.ended() || time.Now().After(deadline) {
			break
		}
	}
	k.ended, k.moved = time.Now(), p.Moved
	if p.Meal != nil {
		k.task, k.version, k.due = p.Meal.TaskID, p.Meal.Version, p.Meal.DueAtMs
	}
	if op == created && k.acked() {
		k.pet = p.ID
	}
	c.add(k)
	if a != nil && k.acked() {
		a.see(p)
	} else if a != nil && k.open() {
		a.unsure = a.id != ""
	}
	return k.status
}
