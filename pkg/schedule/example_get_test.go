package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// An order keeps the id of its task, and asks what has become of it.
func ExampleClient_Get() {
	ctx := context.Background()
	client, _, closing := shop()
	defer closing()
	made, err := client.Schedule(ctx, OrderExpire.New("customer-7", Expire{Order: 42}, task.In(10*time.Minute)))
	check(err)
	_, err = client.Cancel(ctx, made.ID)
	check(err)

	expiry, err := client.Get(ctx, made.ID)
	check(err)
	payload, err := OrderExpire.Payload(expiry)
	check(err)
	fmt.Println(expiry.State, expiry.Owner, payload.Order)
	_, err = client.Get(ctx, task.NewID())
	fmt.Println(errors.Is(err, task.ErrNotFound))
	// Output:
	// cancelled customer-7 42
	// true
}
