package consoleweb

import (
	"context"

	"github.com/duetime/duetime/pkg/task"
)

// askOwner asks whether to block or unblock an owner.
func askOwner(key string) func(ctx context.Context, v *visit) (question, error) {
	return func(ctx context.Context, v *visit) (question, error) {
		owner := v.r.FormValue("owner")
		if err := task.CheckOwner(owner); err != nil {
			return question{}, err
		}
		q := question{
			Title: v.T("ask.owner."+key, cleaned(owner)), Facts: []string{v.T("fact.owner." + key)}, Grave: key == "block",
			Back: v.Link("owner", "owner", owner),
		}
		if key == "block" {
			preview, err := v.c.PreviewBulk(ctx, task.Operation{Verb: task.VerbCancel, Filter: task.Filter{Owner: owner}})
			if err != nil {
				return q, err
			}
			q.Facts, q.Sample = append(q.Facts, v.T("fact.owner.tasks", preview.Matched)), preview.Sample
		}
		return q, nil
	}
}

func doBlockOwner(ctx context.Context, v *visit) (answer, error) {
	owner := v.r.FormValue("owner")
	n, err := v.c.BlockOwner(ctx, owner)
	if err != nil {
		return answer{}, err
	}
	return answer{Text: v.T("did.owner.block", n), Back: v.Link("owner", "owner", owner)}, nil
}

func doUnblockOwner(ctx context.Context, v *visit) (answer, error) {
	owner := v.r.FormValue("owner")
	if err := v.c.UnblockOwner(ctx, owner); err != nil {
		return answer{}, err
	}
	return answer{Text: v.T("did.owner.unblock"), Back: v.Link("owner", "owner", owner)}, nil
}
