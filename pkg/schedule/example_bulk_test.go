package schedule_test

import (
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// After two hours of maintenance every reward comes two hours later. The daemon shifts them; the operation tells how far it is.
func ExampleClient_Bulk() {
	ctx := context.Background()
	client, _, closing := shop()
	defer closing()
	for i, player := range []string{"ann", "bob"} {
		_, err := client.Schedule(ctx, dailyReward.New(player, Gift{Coins: 5}, task.In(time.Duration(1+i)*time.Hour)))
		check(err)
	}
	o := task.Operation{Verb: task.VerbShift, By: 2 * time.Hour, Filter: task.Filter{Kind: dailyReward.Name()}}
	count, sample, err := client.BulkPreview(ctx, o)
	check(err)
	fmt.Println(count, "tasks, the next one of", sample[0].Owner)

	o.Matched = count
	o, err = client.Bulk(ctx, o)
	check(err)
	o, err = client.Operation(ctx, o.ID)
	check(err)
	fmt.Printf("%v: %v, %d left\n", o, o.State, o.Left())
	_, err = client.CancelOperation(ctx, o.ID)
	check(err)
	// Output:
	// 2 tasks, the next one of ann
	// shift by 2h0m0s, kind reward.daily, without recurrences: running, 2 left
}
