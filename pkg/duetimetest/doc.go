// Package duetimetest lets a service test its tasks on its own database, MySQL, MariaDB or SQLite, without Redis, Kafka,
// ZooKeeper or any other process. A test can check that a task was scheduled (RequireScheduled), and run due tasks
// (Fire).
//
// Fire runs handlers in the same transactions as a worker, under the same row locks and checks. Time is virtual inside of
// Fire: it steps from one due time to the next, so that a task which is due in ten minutes is fired at once, and its
// follow-up after it. The package waits for nothing and starts nothing that outlives a call.
//
// A test begins with Migrate, or with a database that already has duetime's tables, and gives Client to the code under
// test if that code expects a client:
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
