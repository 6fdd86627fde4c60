package console_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // for OpenSQLite

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/task"
)

// Charge is the payload of a task that takes a payment.
type Charge struct {
	Cents int `json:"cents"`
}

var charge = task.NewKind[Charge]("order.charge", task.Queue("payments"), task.MaxAttempts(1))

// shop opens a pipeline on SQLite. A service on servers has a duetime.Client, with the same Console.
func shop() (client *embedded.Pipeline, closing func()) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "duetime-example-")
	check(err)
	client, err = embedded.OpenSQLite(ctx, filepath.Join(dir, "shop.db"), embedded.Config{Queues: []string{"payments"}})
	check(err)
	return client, func() {
		check(client.Close(ctx))
		check(os.RemoveAll(dir))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// All tasks of an owner that are due on one day, page by page.
func ExampleConsole_List() {
	ctx := context.Background()
	client, closing := shop()
	defer closing()
	day := time.Now().UTC().Truncate(24 * time.Hour).Add(48 * time.Hour)
	for hour := range 5 {
		_, err := client.Schedule(ctx, charge.New("ada", Charge{100 + hour}, task.At(day.Add(time.Duration(hour)*time.Hour))))
		check(err)
	}
	f := console.Filter{
		Owner: "ada", Kind: charge.Name(), Queue: "payments", State: new(task.Pending),
		DueAfter: day, DueBefore: day.Add(24 * time.Hour), Limit: 2,
	}
	for number := 1; ; number++ {
		page, err := client.Console().List(ctx, f)
		check(err)
		for _, t := range page.Tasks {
			fmt.Printf("page %d: %s at %s\n", number, t.Payload, time.UnixMilli(t.DueAtMs).UTC().Format("15:04"))
		}
		if page.Next == "" {
			break
		}
		f.After = page.Next
	}
	// Output:
	// page 1: {"cents":100} at 00:00
	// page 1: {"cents":101} at 01:00
	// page 2: {"cents":102} at 02:00
	// page 2: {"cents":103} at 03:00
	// page 3: {"cents":104} at 04:00
}

// failed schedules tasks that have used up their attempts.
func failed(ctx context.Context, client *embedded.Pipeline, n int) (ids []task.ID) {
	for i := range n {
		made, err := client.Schedule(ctx, charge.New("ada", Charge{i}, task.In(time.Hour)))
		check(err)
		ids = append(ids, made.ID)
	}
	_, err := client.DB().ExecContext(ctx, `UPDATE duetime_tasks
		SET state = 3, version = 2, attempt = 1, last_error = 'bank away', finished_at = updated_at`)
	check(err)
	return ids
}

// After the bank is back, what it has refused is charged once more: all dead tasks of the kind, in the name of an operator. The daemon
// changes them; AwaitOperation waits for it.
func ExampleConsole_Bulk() {
	ctx := context.Background()
	client, closing := shop()
	defer closing()
	failed(ctx, client, 3)

	operator := client.Console().As("grace@support")
	o := task.Operation{Verb: task.VerbRetry, Filter: task.Filter{Kind: charge.Name()}}
	preview, err := operator.PreviewBulk(ctx, o)
	check(err)
	o.Matched = preview.Matched
	made, err := operator.Bulk(ctx, o)
	check(err)
	fmt.Printf("%s of %d tasks is %s\n", made.Verb, made.Matched, made.State)
	// Output: retry of 3 tasks is running
}

// A customer's bank asks for patience: only that customer's payments wait, and go on by themselves.
func ExampleConsole_PauseUntil() {
	ctx := context.Background()
	client, closing := shop()
	defer closing()
	operator := client.Console().As("grace@support")

	of := console.PauseOf{Queue: "payments", Owner: "customer-7"}
	_, err := operator.PauseUntil(ctx, of, task.In(10*time.Minute))
	check(err)
	pauses, err := operator.Pauses(ctx)
	check(err)
	fmt.Println(pauses[0].Of(), "by", pauses[0].Actor)
	resumed, err := operator.EndPause(ctx, of)
	check(err)
	fmt.Println("resumed before:", resumed)
	// Output:
	// queue=payments, owner=customer-7 by grace@support
	// resumed before: true
}

// While the bank is away no payment is tried.
func ExampleConsole_Pause() {
	ctx := context.Background()
	client, closing := shop()
	defer closing()
	operator := client.Console().As("grace@support")

	changed, err := operator.Pause(ctx, "payments")
	check(err)
	pauses, err := operator.Pauses(ctx)
	check(err)
	fmt.Println(changed, pauses[0].Queue)
	_, err = operator.Resume(ctx, "payments")
	check(err)
	_, err = operator.Pause(ctx, "meals")
	fmt.Println(err)
	// Output:
	// true payments
	// queue "meals" is none of the deployment's: payments
}

// A page of the service shows a task, and what has become of it.
func ExampleConsole_Task() {
	ctx := context.Background()
	client, closing := shop()
	defer closing()
	id := failed(ctx, client, 1)[0]
	operator := client.Console().As("grace@support")
	_, err := operator.Retry(ctx, id, 0)
	check(err)
	_, err = operator.Cancel(ctx, id, 0)
	check(err)

	life, err := operator.Task(ctx, id)
	check(err)
	fmt.Println(life.Kind, life.Owner, life.State)
	for _, h := range life.History {
		fmt.Printf("%s by %s\n", h.Event, h.Actor)
	}
	_, err = operator.Task(ctx, task.NewID())
	fmt.Println(errors.Is(err, task.ErrNotFound))
	// Output:
	// order.charge ada cancelled
	// scheduled by service
	// retried by grace@support
	// cancelled by grace@support
	// true
}
