// Package duetimetest lets a service test its tasks on its own database, MySQL, MariaDB or SQLite, without Redis, Kafka,
// ZooKeeper or any other process: that a task was scheduled (RequireScheduled), and what it does when its time has come
// (Fire).
//
// Fire runs handlers in the very transactions that a worker uses, under the same row locks and checks. Time is virtual
// inside of it: it steps from one due time to the next, so that a task which is due in ten minutes is fired at once, and
// its follow-up after it. The package waits for nothing and starts nothing that outlives a call.
//
// A test begins with Migrate, or with a database that has duetime's tables already, and hands Client to the code under
// test where that expects a client:
//
//	db := openTestDB(t)
//	duetimetest.Migrate(t, db)
//	shop := NewShop(duetimetest.Client(t, db))
//
//	shop.Order(ctx, "ada", 42)
//	duetimetest.RequireScheduled(t, db, OrderExpire, "ada", duetimetest.DueIn(10*time.Minute, time.Second))
//	duetimetest.Fire(t, db, shop.Handlers(), time.Now().Add(10*time.Minute))
//
// Each test should have a schema or a file of its own: Fire fires whatever is due in it.
package duetimetest
