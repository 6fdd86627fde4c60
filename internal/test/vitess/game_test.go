package vitess_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const (
	pets  = 30
	cards = 11 // each makes one further meal
	meals = pets * (1 + cards)
)

// game plays meals of real processes, kills two workers meanwhile, and asks the tool what was lost, doubled or early.
func game(t *testing.T) {
	d := pipelinetest.SharedDeployment(t)
	d.Rules = append(d.Rules, "DUETIME_GAME__MEAL=2s", fmt.Sprintf("DUETIME_GAME__START__AUTOFEED_CARDS=%d", cards))
	for _, name := range []string{"event", "daemon"} {
		d.Ready(t, name)
	}
	workers := []pipelinetest.App{d.Ready(t, "worker"), d.Ready(t, "worker")}
	url := d.Ready(t, "game").URL(t, "game") + "/v1/pets"
	for i := range pets {
		var pet struct {
			ID json.Number `json:"id"`
		}
		pipelinetest.Must(t, json.Unmarshal(post(t, url, fmt.Sprintf(`{"owner":"owner-%d","name":"rex"}`, i)), &pet))
		post(t, url+"/"+pet.ID.String()+"/feed", "")
		for range cards {
			post(t, url+"/"+pet.ID.String()+"/autofeed", "")
		}
	}
	db, err := sql.Open("mysql", d.DSN)
	pipelinetest.Must(t, err)
	defer func() { _ = db.Close() }()
	eaten := func() (n int) {
		pipelinetest.Must(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM pet_journal WHERE event = 'meal_finished'").Scan(&n))
		return n
	}
	for i, w := range workers {
		pipelinetest.Await(t, "meals", func() bool { return eaten() >= (i+1)*meals/3 })
		pipelinetest.Must(t, w.Kill())
		d.Ready(t, "worker")
	}
	pipelinetest.Await(t, "all meals", func() bool { return eaten() >= meals })
	if code, v := d.Verify(t); code != 0 || v.Done != meals {
		t.Errorf("verify: exit code %d, %+v", code, v)
	}
}

// post answers what the game answers.
func post(t *testing.T, url, body string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	pipelinetest.Must(t, err)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	pipelinetest.Must(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	pipelinetest.Must(t, err)
	if res.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s: %s, %s", url, res.Status, text)
	}
	return text
}
