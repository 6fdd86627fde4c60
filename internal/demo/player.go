package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// counts are the players' actions, for the progress line.
type counts struct {
	fed, spedUp, armed, cancelled, refused, failed atomic.Int64
}

// player plays one pet through the API, as a game client would.
type player struct {
	*stage
	number int
	name   string // of the pet
	meal   time.Duration
	client *http.Client
}

func (s *stage) player(number int) *player {
	return &player{stage: s, number: number, name: fmt.Sprintf("pet-%d", number), meal: s.cfg.Meal, client: &http.Client{Timeout: 10 * time.Second}}
}

// play feeds the pet until ctx ends, and uses its cards at random.
func (p *player) play(ctx context.Context) error {
	defer p.client.CloseIdleConnections()
	if !sleep(ctx, rand.N(p.meal)) { //nolint:gosec // spread, not secret
		return nil
	}
	id, err := p.create(ctx)
	if err != nil || id == "" {
		return p.unlessCutOff(ctx, err)
	}
	path := "/v1/pets/" + id
	for ctx.Err() == nil {
		if err := p.eat(ctx, path); err != nil {
			return p.unlessCutOff(ctx, err)
		}
	}
	return nil
}

// create makes the pet, by another call after each one that is to be tried again; "" if ctx ended before.
func (p *player) create(ctx context.Context) (string, error) {
	for {
		var made struct{ ID string }
		status, err := p.call(ctx, http.MethodPost, "/v1/pets", map[string]string{
			"owner": fmt.Sprintf("player-%d", p.number/2), "name": p.name,
		}, &made)
		switch {
		case err != nil:
			return "", fmt.Errorf("make a pet: %w", err)
		case status == http.StatusCreated:
			return made.ID, nil
		case status != http.StatusServiceUnavailable:
			return "", fmt.Errorf("make a pet: status %d", status)
		}
		p.counts.failed.Add(1)
		if !sleep(ctx, retryPause) {
			return "", nil
		}
	}
}

const retryPause = 500 * time.Millisecond

// eat feeds the pet and chooses at random what happens during the meal.
func (p *player) eat(ctx context.Context, path string) error {
	if err := p.act(ctx, http.MethodPost, path+"/feed", &p.counts.fed); err != nil {
		return err
	}
	if !sleep(ctx, rand.N(p.meal/4)) { //nolint:gosec // spread, not secret
		return nil
	}
	var err error
	switch rand.IntN(10) { //nolint:gosec // spread, not secret
	case 0, 1, 2:
		err = p.act(ctx, http.MethodPost, path+"/speedup", &p.counts.spedUp)
	case 3, 4:
		err = p.act(ctx, http.MethodPost, path+"/autofeed", &p.counts.armed)
	case 5:
		err = p.act(ctx, http.MethodDelete, path+"/meal", &p.counts.cancelled)
	}
	if err == nil {
		sleep(ctx, p.meal)
	}
	return err
}

// act makes one call without a body and counts its answer. A refusal by the game's rules is no failure.
func (p *player) act(ctx context.Context, method, path string, done *atomic.Int64) error {
	status, err := p.call(ctx, method, path, nil, nil)
	switch {
	case err != nil:
		return err
	case status == http.StatusOK:
		done.Add(1)
	case status == http.StatusConflict:
		p.counts.refused.Add(1)
	default:
		p.counts.failed.Add(1)
	}
	return nil
}

func (p *player) call(ctx context.Context, method, path string, in, out any) (int, error) {
	var body io.Reader = http.NoBody
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return 0, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, body)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Idempotency-Key", uuid.NewString())
	res, err := p.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	if out != nil {
		return res.StatusCode, json.NewDecoder(res.Body).Decode(out)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// unlessCutOff drops the errors of calls that the end of the game cut off.
func (p *player) unlessCutOff(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil //nolint:nilerr // the game is over
	}
	return err
}
