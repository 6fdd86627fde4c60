package main

import (
	"context"
	"time"

	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Gift is the payload of a daily reward.
type Gift struct {
	Coins int `json:"coins"`
}

// DailyReward gives a player coins, each morning in the player's zone. A player gets one gift for all mornings that an
// outage took, because of the policy; a gift that is more than a day late is not given.
var DailyReward = task.NewKind[Gift]("reward.daily", task.CatchUpWindow(24*time.Hour))

// WeeklyReport writes a line about the week.
var WeeklyReport = task.NewKind[struct{}]("report.weekly")

// Names of recurrences: each is unique for its owner.
const (
	rewardName = "daily reward"
	reportName = "weekly report"
	house      = "house" // owns what belongs to no player
)

// Rewards is a service that gives players their daily rewards.
type Rewards struct {
	tasks *schedule.Client

	// In a player's zone, and in that of the house.
	rewardAt, reportAt string // cron expressions
}

// Open begins the reports. Each start of the service may call it: a recurrence that has this definition already stays as
// it is.
func (r *Rewards) Open(ctx context.Context) error {
	_, err := r.tasks.Recur(ctx, reportName, recur.Cron(r.reportAt, "UTC"), WeeklyReport.Recurring(house, struct{}{}), recur.Policy{})
	return err
}

// Join adds a player, whose rewards begin in the same transaction. An unknown zone is a *task.FieldError, and there is no
// player then.
func (r *Rewards) Join(ctx context.Context, player, zone string) (first time.Time, err error) {
	err = r.tasks.InTx(ctx, func(tx *schedule.Tx) error {
		made, err := r.recur(ctx, tx, player, zone)
		if err != nil {
			return err
		}
		first = made.DueAt
		_, err = tx.ExecContext(ctx, "INSERT INTO players (name, zone, coins) VALUES (?, ?, 0)", player, zone)
		return err
	})
	return first, err
}

// Move gives the player another zone. The next reward is that of the next morning there.
func (r *Rewards) Move(ctx context.Context, player, zone string) error {
	return r.tasks.InTx(ctx, func(tx *schedule.Tx) error {
		if _, err := r.recur(ctx, tx, player, zone); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE players SET zone = ? WHERE name = ?", zone, player)
		return err
	})
}

func (r *Rewards) recur(ctx context.Context, tx *schedule.Tx, player, zone string) (task.Recurrence, error) {
	return tx.Recur(ctx, rewardName, recur.Cron(r.rewardAt, zone), DailyReward.Recurring(player, Gift{Coins: 5}), recur.Policy{})
}

// Leave deletes a player, with all recurrences and tasks.
func (r *Rewards) Leave(ctx context.Context, player string) error {
	return r.tasks.InTx(ctx, func(tx *schedule.Tx) error {
		if _, err := tx.StopRecurrences(ctx, player); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM players WHERE name = ?", player)
		return err
	})
}

// Handlers returns the handlers of both kinds.
func (r *Rewards) Handlers() *worker.Mux {
	mux := worker.NewMux()
	worker.Handle(mux, DailyReward, func(ctx context.Context, tx *worker.Tx, t worker.Task[Gift]) error {
		_, err := tx.ExecContext(ctx, "UPDATE players SET coins = coins + ? WHERE name = ?", t.Payload.Coins, t.Owner)
		return err
	})
	worker.Handle(mux, WeeklyReport, func(ctx context.Context, tx *worker.Tx, t worker.Task[struct{}]) error {
		_, at, _ := t.Tick() // the moment for which the report is, also if an outage has delayed it
		_, err := tx.ExecContext(ctx, "INSERT INTO reports (at_ms, coins) SELECT ?, COALESCE(SUM(coins), 0) FROM players", at.UnixMilli())
		return err
	})
	return mux
}
