package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Every task belongs to a customer, and says what it is about.
func ExampleSpecFunc() {
	_, s, closing := shop()
	defer closing()
	ctx := context.Background()
	client, err := schedule.New(schedule.Config{
		BeforeSchedule: func(_ context.Context, spec task.Spec) (task.Spec, error) {
			if !strings.HasPrefix(spec.Owner(), "customer-") {
				return spec, errors.New("owner is no customer")
			}
			if spec.Subject() == "" {
				spec = spec.With(task.Subject("general"))
			}
			return spec, nil
		},
	}, s, nowhere{}, nowhere{})
	check(err)
	defer client.Close(ctx)

	made, err := client.Schedule(ctx, OrderExpire.New("customer-7", Expire{Order: 42}, task.In(10*time.Minute)))
	check(err)
	fmt.Println(made.Subject)
	_, err = client.Schedule(ctx, OrderExpire.New("7", Expire{Order: 42}, task.In(10*time.Minute)))
	fmt.Println(strings.HasSuffix(err.Error(), "owner is no customer"))
	// Output:
	// general
	// true
}
