package embedded_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Army is the payload of a march.
type Army struct {
	Soldiers int `json:"soldiers"`
}

// March takes effect in order: of the marches to one city, whoever arrives first meets the city first.
var March = task.NewKind[Army]("march", task.InOrder())

// Two players march to one city and arrive within a millisecond. The later one meets the army that the earlier one has left there.
func Example_inOrder() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	dir, err := os.MkdirTemp("", "duetime-example-")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	p, err := embedded.OpenSQLite(ctx, filepath.Join(dir, "war.db"), embedded.Config{Logger: slog.New(slog.DiscardHandler)})
	check(err)
	defer func() { check(p.Close(context.Background())) }()
	_, err = p.DB().ExecContext(ctx, "CREATE TABLE cities (id INTEGER PRIMARY KEY, master TEXT, soldiers INTEGER)")
	check(err)
	_, err = p.DB().ExecContext(ctx, "INSERT INTO cities VALUES (17, 'nobody', 0)")
	check(err)

	mux := worker.NewMux()
	worker.Handle(mux, March, func(ctx context.Context, tx *worker.Tx, m worker.Task[Army]) error {
		var defenders int
		if err := tx.GetContext(ctx, &defenders, "SELECT soldiers FROM cities WHERE id = 17"); err != nil {
			return err
		}
		fmt.Printf("%s meets %d soldiers\n", m.Owner, defenders)
		if m.Payload.Soldiers <= defenders {
			_, err := tx.ExecContext(ctx, "UPDATE cities SET soldiers = soldiers - ? WHERE id = 17", m.Payload.Soldiers)
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE cities SET master = ?, soldiers = ? WHERE id = 17", m.Owner, m.Payload.Soldiers-defenders)
		return err
	})
	var arrived atomic.Int32
	mux.OnEvent(func(context.Context, worker.Event) {
		if arrived.Add(1) == 2 {
			stop() // a service works until a signal
		}
	})

	arrival := time.Now().Add(200 * time.Millisecond)
	err = p.InTx(ctx, func(tx *schedule.Tx) error {
		city := task.OrderKey("city-17")
		_, err := tx.ScheduleMany(ctx, []task.Spec{
			March.New("bob", Army{Soldiers: 30}, task.At(arrival.Add(time.Millisecond)), city),
			March.New("ann", Army{Soldiers: 100}, task.At(arrival), city),
		})
		return err
	})
	check(err)
	check(p.Work(ctx, mux))

	var master string
	check(p.DB().GetContext(context.Background(), &master, "SELECT master FROM cities WHERE id = 17"))
	fmt.Println("the city is", master+"'s")
	// Output:
	// ann meets 0 soldiers
	// bob meets 100 soldiers
	// the city is ann's
}
