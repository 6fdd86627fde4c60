package pet

import (
	"context"
	"slices"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// SpeedupOwner spends a card on each of the owner's eating pets that has one, and returns their number. It locks all
// tasks before the first pet, even if that takes several calls.
func (g *Game) SpeedupOwner(ctx context.Context, tx *schedule.Tx, owner string) (int, error) {
	pets, err := g.tables.fast(ctx, tx, owner)
	if err != nil {
		return 0, err
	}
	ids := make([]task.ID, len(pets))
	for i, r := range pets {
		ids[i] = r.mealID()
	}
	slices.SortFunc(ids, task.ID.Compare)
	meals := make(map[task.ID]task.Task, len(ids))
	for part := range slices.Chunk(ids, task.MaxPerCall) {
		moved, err := g.shift(ctx, tx, part)
		if err != nil {
			return 0, err
		}
		for _, m := range moved {
			meals[m.ID] = m
		}
	}
	pets = slices.DeleteFunc(pets, func(r row) bool { return !eating(meals[r.mealID()]) })
	for part := range slices.Chunk(pets, task.MaxPerCall) {
		if err := g.pay(ctx, tx, part, meals); err != nil {
			return 0, err
		}
	}
	return len(pets), nil
}

// shift moves those of the meals that are going on.
func (g *Game) shift(ctx context.Context, tx *schedule.Tx, ids []task.ID) ([]task.Task, error) {
	for range 2 {
		found, err := tx.GetMany(ctx, ids)
		if err != nil {
			return nil, err
		}
		ids = nil
		for _, t := range found {
			if t.State == task.Pending {
				ids = append(ids, t.ID)
			}
		}
		moved, err := tx.ShiftMany(ctx, ids, -g.rules().Speedup)
		if err == nil || !hasEnded(err) {
			return moved, err
		}
		// One meal has ended after the read. Now all tasks are locked, and a second read stays valid.
	}
	return nil, errMoved
}

// pay takes a card from each of the pets, whose meals were moved in this transaction.
func (g *Game) pay(ctx context.Context, tx *schedule.Tx, seen []row, meals map[task.ID]task.Task) error {
	ids := make([]int64, len(seen))
	for i, r := range seen {
		ids[i] = r.ID
	}
	pets, err := g.tables.lockAll(ctx, tx, ids)
	if err != nil {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	lines := make([]journalLine, len(pets))
	for i, r := range pets {
		meal := meals[r.mealID()]
		if !eating(meal) || r.SpeedupCards < 1 {
			return errMoved
		}
		lines[i] = line(r, meal, eventSpedUp, now)
	}
	if err := g.tables.takeCards(ctx, tx, ids); err != nil {
		return err
	}
	return g.tables.journal(ctx, tx, lines...)
}
