package schedule_test

import (
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Summary is the payload of a task that follows a group.
type Summary struct {
	Month string     `json:"month"`
	Group task.Group `json:"group"`
}

// Summarize runs once all orders of a month have expired or were taken back.
var Summarize = task.NewKind[Summary]("orders.summarize")

// Some orders expire; when the last of them is through, a summary is due.
func ExampleTx_Group() {
	ctx := context.Background()
	client, _, closing := shop()
	defer closing()
	var specs []task.Spec
	for order := range int64(3) {
		specs = append(specs, OrderExpire.New("customer-7", Expire{Order: order}, task.In(time.Hour)))
	}
	summary := Summarize.New("office", Summary{Month: "May"}, task.In(0))
	var members []task.Task
	check(client.InTx(ctx, func(tx *schedule.Tx) (err error) {
		members, err = tx.Group(ctx, "may", specs, task.Then(summary))
		return err
	}))

	for _, member := range members {
		_, err := client.Cancel(ctx, member.ID)
		check(err)
		group, err := client.GetGroup(ctx, "may")
		check(err)
		fmt.Println("open:", group.Open, "cancelled:", group.Cancelled)
	}
	follower, err := client.Get(ctx, summary.ID())
	check(err)
	fmt.Println(string(follower.Payload))
	// Output:
	// open: 2 cancelled: 1
	// open: 1 cancelled: 2
	// open: 0 cancelled: 3
	// {"group":{"name":"may","done":0,"dead":0,"cancelled":3},"month":"May"}
}
