package consoleweb_test

import (
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// A member's page leads to its group, whose counts lead to the members, and in the end to the follower.
func TestPageOfAGroup(t *testing.T) {
	t.Parallel()
	p := open(t)
	then := charge.New("office", Charge{0}, task.In(0))
	var made []task.Task
	pipelinetest.Must(t, p.p.InTx(t.Context(), func(tx *schedule.Tx) (err error) {
		specs := []task.Spec{charge.New("ada", Charge{1}, task.In(time.Hour)), charge.New("bob", Charge{2}, task.In(time.Hour))}
		made, err = tx.Group(t.Context(), "May", specs, task.Then(then))
		return err
	}))
	group := theLink(t, p.get(200, "task?id="+made[0].ID.String()), "name", "May")
	_, err := p.p.Cancel(t.Context(), made[0].ID)
	pipelinetest.Must(t, err)
	page := p.get(200, group)
	if !strings.Contains(page, "sealed") {
		t.Errorf("the group's page: %s", page)
	}
	for state, member := range map[string]task.Task{"cancelled": made[0], "pending": made[1]} {
		list := p.get(200, theLink(t, page, "label", "duetime.group=May", "state", state))
		if theLink(t, list, "id", member.ID.String()); strings.Contains(list, made[0].ID.String()) != (state == "cancelled") {
			t.Errorf("the list of %s members: %s", state, list)
		}
	}
	theLink(t, p.get(200, theLink(t, p.get(200, "tasks"), "open", "1")), "name", "May")
	_, err = p.p.Cancel(t.Context(), made[1].ID)
	pipelinetest.Must(t, err)
	p.get(200, theLink(t, p.get(200, group), "id", then.ID().String()))
	if list := p.get(200, "group?open=1"); strings.Contains(list, "May") {
		t.Errorf("the list of groups that have not ended: %s", list)
	}
	theLink(t, p.get(200, "group"), "name", "May")
	p.get(404, "group?name=June")
	p.get(400, "group?cursor=%7B")
}
