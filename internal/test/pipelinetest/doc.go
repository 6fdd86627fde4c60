// Package pipelinetest gives tests the real servers: redis-server, MySQL or MariaDB, ZooKeeper and Apache Kafka, each on a
// loopback port of its own with its data in a folder of its own, besides a proxy that breaks connections and our own
// binaries as separate processes.
//
// What a test does with it:
//
//	func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }
//
//	func TestStore(t *testing.T) {
//		dsn := pipelinetest.MySQL(t).NewSchema(t)    // one server per test process, one schema per test
//		redis := pipelinetest.OwnRedis(t)              // this test's own server, which it may kill
//		prefix := pipelinetest.Namespace(t)            // keeps tests apart on shared servers
//		...
//		pipelinetest.Must(t, redis.Kill())
//		pipelinetest.Must(t, redis.Start())            // same port, same data
//	}
//
// What it can do to a server besides: cut, slow or redirect each client's link (Proxy, OwnKafkaBehindMany), move its
// wall clock (NewClock), let it run out of disk (SmallDisk), put its data back to an earlier moment (Snapshot), lose
// records (DeleteRecords), promote a replica (OwnRedisReplica, OwnReplicatedRedisCluster).
//
// It promises that nothing outlives the test process: servers get SIGKILL from the kernel when it ends, however it
// ends, and the folders that a killed run left behind go when the next one starts. Any number of test processes may
// run side by side. A server that is not installed fails the test and says what to run; it never skips.
//
// It never listens on anything but 127.0.0.1 and never touches a server that it did not start.
package pipelinetest
