package duetime_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// TestProgramsWithAnotherClock runs each program with a clock that is 30 s ahead of the database's or behind it, from the
// start or after a step while it runs. By the database's clock nothing may happen early, and nothing more than 2 s late.
// The programs must report their clock's offset. The programs are compiled with the test's time.Now, so that every
// decision by their own clock shows.
func TestProgramsWithAnotherClock(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Setenv("GOFLAGS", "-overlay="+pipelinetest.OtherClock(t))
	for _, name := range []string{"event", "worker", "daemon", "game"} {
		pipelinetest.Build(t, "./cmd/"+name)
	}
	for _, c := range []struct {
		name                        string
		event, worker, daemon, game int // seconds ahead of the database
		after                       int // seconds after a program's start when its clock is stepped
	}{
		{"ahead", 30, 30, 30, 30, 0},
		{"behind", -30, -30, -30, -30, 0},
		{"set apart", 30, -30, -30, 30, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newClockWorld(t)
			start := func(name string, ahead int) pipelinetest.App {
				return w.Ready(t, name, fmt.Sprintf("CLOCK_AHEAD=%d", ahead), fmt.Sprintf("CLOCK_AFTER=%d", c.after))
			}
			w.game = start("game", c.game)
			keepers := map[int][]pipelinetest.App{}
			keepers[c.event] = append(keepers[c.event], start("event", c.event))
			keepers[c.worker] = append(keepers[c.worker], start("worker", c.worker))
			keepers[c.daemon] = append(keepers[c.daemon], start("daemon", c.daemon))
			keepers[c.game] = append(keepers[c.game], w.game)
			began := time.Now()
			w.watch()
			w.play()
			// A last round, with every clock correct.
			time.Sleep(time.Until(began.Add(time.Duration(c.after) * time.Second)))
			w.play()
			w.judge()
			if hints := keepers[c.event][0].Metric(t, "duetime_hints_published_total "); hints > 1.2*clockTasks {
				t.Errorf("%v hints of %d tasks", hints, clockTasks)
			}
			for ahead, apps := range keepers {
				for _, app := range apps {
					if gap := app.Metric(t, "duetime_clock_gap_seconds "); math.Abs(gap+float64(ahead)) > 1 || app.Says(`"msg":"clock gap"`) == 0 {
						t.Errorf("%s is %d s ahead of the database: the metric says %v, %d lines say so", app.Name, ahead, gap, app.Says(`"msg":"clock gap"`))
					}
				}
			}
		})
	}
}

// clockWorld is a deployment whose database records, by its own clock, when tasks are made and done.
type clockWorld struct {
	pipelinetest.Deployment
	t    *testing.T
	db   *sqlx.DB
	game pipelinetest.App
	http http.Client
}

const (
	clockMeal  = 3 * time.Second
	clockPets  = 12
	clockTasks = 4*clockPets + 2
	clockLag   = 2 * time.Second
	sweeps     = 3 * time.Second // between two sweeps, with a put
)

func newClockWorld(t *testing.T) *clockWorld {
	t.Helper()
	w := &clockWorld{t: t, Deployment: pipelinetest.SharedDeployment(t)}
	w.http.Transport = &http.Transport{DisableKeepAlives: true}
	w.Rules = append(w.Rules, "DUETIME_GAME__MEAL="+clockMeal.String(), "DUETIME_GAME__SPEEDUP=1s")
	var err error
	w.db, err = sqlx.Open("mysql", w.DSN)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, w.db.Close()) })
	return w
}

// nowMS is the moment of a statement on the database's clock.
const nowMS = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000"

func (w *clockWorld) exec(statement string) {
	w.t.Helper()
	_, err := w.db.ExecContext(w.t.Context(), statement)
	pipelinetest.Must(w.t, err)
}

// watch makes the database record what happens. It inserts two rows as a service in another language would: the sweeps
// have to find them, the second one after its due time.
func (w *clockWorld) watch() {
	w.exec("CREATE TABLE made (id BINARY(16) PRIMARY KEY, promised BIGINT, at_ms BIGINT)")
	w.exec("CREATE TABLE done (id BINARY(16), due_at BIGINT, at_ms BIGINT)")
	w.exec("CREATE TRIGGER watch_made AFTER INSERT ON duetime_tasks FOR EACH ROW INSERT INTO made VALUES (NEW.id, NEW.due_at, " + nowMS + ")")
	w.exec("CREATE TRIGGER watch_done AFTER UPDATE ON duetime_tasks FOR EACH ROW INSERT INTO done SELECT NEW.id, NEW.due_at, " + nowMS +
		" FROM DUAL WHERE NEW.state = 1")
	for _, due := range []string{"+ 6000", "- 6000"} {
		w.exec(`INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, payload, created_at, updated_at)
SELECT UNHEX(REPLACE('` + task.NewID().String() + `', '-', '')), 'pet.meal_finished', 'foreign', 'default', CRC32('foreign') MOD shards,
  ` + nowMS + due + ", " + nowMS + due + `, '{"pet_id":1}', ` + nowMS + ", " + nowMS + " FROM duetime_layout")
	}
}

// play lets each pet eat two meals, every third one with a speed-up card.
func (w *clockWorld) play() {
	w.t.Helper()
	var all errgroup.Group
	for i := range clockPets {
		all.Go(func() error {
			pet, err := w.call(http.MethodPost, "", fmt.Sprintf(`{"owner":"owner-%d","name":"tom"}`, i))
			for range 2 {
				if err == nil {
					pet, err = w.call(http.MethodPost, "/"+pet.ID+"/feed", "")
				}
				if err == nil && i%3 == 0 {
					pet, err = w.call(http.MethodPost, "/"+pet.ID+"/speedup", "")
				}
				for err == nil && pet.Meal != nil {
					time.Sleep(50 * time.Millisecond) // until the next read
					pet, err = w.call(http.MethodGet, "/"+pet.ID, "")
				}
			}
			return err
		})
	}
	pipelinetest.Must(w.t, all.Wait())
}

// clockPet is the game's answer.
type clockPet struct {
	ID   string
	Meal *struct{}
}

func (w *clockWorld) call(method, path, body string) (pet clockPet, err error) {
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.game.URL(w.t, "game")+"/v1/pets"+path, strings.NewReader(body))
	if err != nil {
		return pet, err
	}
	res, err := w.http.Do(req)
	if err != nil {
		return pet, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= http.StatusBadRequest {
		return pet, fmt.Errorf("%s %s: status %d", method, path, res.StatusCode)
	}
	return pet, json.NewDecoder(res.Body).Decode(&pet)
}

// judge waits until every task is done, and compares the database's records with the promises.
func (w *clockWorld) judge() {
	w.t.Helper()
	pipelinetest.Await(w.t, "the last task", func() bool {
		var left int
		pipelinetest.Must(w.t, w.db.Get(&left, "SELECT COUNT(*) FROM duetime_tasks WHERE state <> 1"))
		return left == 0
	})
	var got struct {
		Tasks, Effects, Early, Odd int
		Late, Found                int64 // ms: the largest lag, and the lag of the row that was late when it was inserted
	}
	pipelinetest.Must(w.t, w.db.Get(&got, `SELECT COUNT(DISTINCT made.id) AS tasks, COUNT(*) AS effects,
  SUM(done.at_ms < done.due_at) AS early,
  MAX(IF(done.due_at > made.at_ms, done.at_ms - done.due_at, 0)) AS late, MAX(IF(done.due_at > made.at_ms, 0, done.at_ms - made.at_ms)) AS found,
  SUM(ABS(CAST(made.promised AS SIGNED) - made.at_ms - ?) > 10000 AND owner <> 'foreign') AS odd
FROM made JOIN done ON done.id = made.id JOIN duetime_tasks AS t ON t.id = made.id`, clockMeal.Milliseconds()))
	w.t.Logf("%+v", got)
	if got.Late > clockLag.Milliseconds() || got.Found > 2*sweeps.Milliseconds() {
		w.t.Errorf("the latest was %d ms late, want at most %v; the sweeps took %d ms, want at most %v", got.Late, clockLag, got.Found, 2*sweeps)
	}
	if got.Tasks != clockTasks || got.Effects != clockTasks || got.Early != 0 || got.Odd != 0 {
		w.t.Errorf("%+v; want %d tasks with one effect each, none early, and no promise that isn't a meal ahead", got, clockTasks)
	}
}
