package bench_test

import (
	"fmt"
	"time"

	"github.com/duetime/duetime/bench/report"
)

// ordering measures a burst of tasks in order, each of a key of its own, beside a burst of as many plain tasks.
func ordering(w *world, f *report.Figures) {
	besidePlain(w, f, "in order", "tasks in order due at one instant", w.ordered)
}

// ordered is drained for tasks with an order key.
func (w *world) ordered(n int64) float64 {
	w.Helper()
	j := jobs{first: w.take(n), n: n, before: w.seen(true)}
	j.due = time.Now().Add(30*time.Second + time.Duration(2*float64(n)/w.rate*float64(time.Second))).Truncate(time.Second)
	w.load(j.first, n, j.due, 0, 1)
	w.exec(fmt.Sprintf(`UPDATE duetime_tasks SET order_key = CONCAT('s', owner, CHAR(31), HEX(id)) WHERE state = 0 AND due_at = %d`, j.due.UnixMilli()))
	w.exec(fmt.Sprintf(`INSERT INTO duetime_orders (task_id, order_key, due_at)
		SELECT id, order_key, due_at FROM duetime_tasks WHERE state = 0 AND due_at = %d`, j.due.UnixMilli()))
	if time.Until(j.due) < 5*time.Second {
		w.Fatal("putting the tasks in order took too long")
	}
	took, _ := w.took(j)
	var left int64
	if err := w.db.QueryRowContext(w.Context(), "SELECT COUNT(*) FROM duetime_orders").Scan(&left); err != nil || left != 0 {
		w.Errorf("%d of %d rows of duetime_orders are left: %v", left, n, err)
	}
	return float64(n) / took.Seconds()
}
