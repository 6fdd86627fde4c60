package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// A player is banned: nothing of the player's takes effect any more, and nothing new is scheduled, until the ban ends.
func ExampleClient_BlockOwner() {
	ctx := context.Background()
	client, _, closing := shop()
	defer closing()
	reward := func() error {
		_, err := client.Schedule(ctx, dailyReward.New("ann", Gift{Coins: 5}, task.In(time.Hour)))
		return err
	}
	check(reward())

	cancelled, err := client.BlockOwner(ctx, "ann")
	check(err)
	fmt.Println("cancelled:", cancelled)
	fmt.Println("scheduled since:", !errors.Is(reward(), task.ErrOwnerBlocked))
	blocked, err := client.BlockedOwners(ctx, "", 100)
	check(err)
	fmt.Println("blocked:", blocked[0].Owner, "by", blocked[0].Actor)

	check(client.UnblockOwner(ctx, "ann"))
	fmt.Println("scheduled after the ban:", reward() == nil)
	// Output:
	// cancelled: 1
	// scheduled since: false
	// blocked: ann by service
	// scheduled after the ban: true
}
