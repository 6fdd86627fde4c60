package deliver_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // for OpenSQLite

	"github.com/duetime/duetime/pkg/deliver"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Expiry is the payload of a task that another service runs.
type Expiry struct {
	Order int64 `json:"order"`
}

// OrderExpired is declared where its tasks are scheduled and delivered.
var OrderExpired = task.NewKind[Expiry]("order.expired")

// The endpoint runs the task. It may get a task twice, under the same webhook-id.
func ExampleHandle() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	shop := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // a real endpoint checks the webhook-signature too
		check(err)
		fmt.Println(r.Method, r.Header.Get("ce-type"), string(body))
	}))
	defer shop.Close()

	pusher, err := deliver.New(deliver.Config{Allow: []string{"127.0.0.1"}}) // addresses on the internet need not be allowed
	check(err)
	defer pusher.Close()
	mux := worker.NewMux()
	err = deliver.Handle(mux, OrderExpired, pusher, deliver.Endpoint{
		URL: shop.URL + "/expired", Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
	})
	check(err)

	mux.OnEvent(func(_ context.Context, e worker.Event) {
		fmt.Println(e.Name)
		stop()
	})
	work(ctx, mux, OrderExpired.New("ada", Expiry{Order: 42}, task.In(0)))
	// Output:
	// POST order.expired {"order":42}
	// done
}

// work schedules the task and runs the mux in a pipeline of its own until ctx ends.
func work(ctx context.Context, mux *worker.Mux, spec task.Spec) {
	dir, err := os.MkdirTemp("", "duetime-example-")
	check(err)
	p, err := embedded.OpenSQLite(ctx, filepath.Join(dir, "shop.db"), embedded.Config{Logger: slog.New(slog.DiscardHandler)})
	check(err)
	_, err = p.Schedule(ctx, spec)
	check(err)
	check(p.Work(ctx, mux))
	check(p.Close(context.Background()))
	check(os.RemoveAll(dir))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
