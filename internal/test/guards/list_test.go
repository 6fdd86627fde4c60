package guards

// floor is how many of the guards must be caught.
const floor = 60

// guard is a rule of a failure table, and the edit that takes it away.
type guard struct {
	name     string // what happens without it, in the words of its row
	file     string
	old, new string // old stands in the file exactly once
	tests    string // those that its row names: "package Test Test/subtest; package Test"
}

// guards are in the order of the failure tables. An edit leaves the code compiling.
var guards = []guard{
	// Groups.
	{
		"two transactions end the last members of a group side by side, and neither sees the other's end",
		"internal/store/groups.go",
		"return s.groupRow(ctx, q, name, s.dialect.ForUpdate())",
		"return s.groupRow(ctx, q, name, \"\")",
		"pkg/schedule TestLastTwoMembersEndSideBySide",
	},
	{
		"members are added while somebody seals the group",
		"internal/group/group.go",
		"	case g.Sealed && d.added:\n		return sealed(name)\n",
		"",
		"pkg/schedule TestSealRefusesWhatIsBeingAdded",
	},
	{
		"a dead member is retried after the group has ended",
		"internal/group/group.go",
		"return w.store.LeaveGroup(w.ctx, w.q, d.retried)",
		"return nil",
		"pkg/schedule TestRetryOfAMember",
	},
	{
		"a member ends by SQL of another program, or by an older release",
		"internal/group/mend.go",
		"	p.Open = rows.Open\n",
		"",
		"internal/reconcile TestMembersThatEndElsewhere",
	},

	// Recurrences.
	{
		"a tick's task dies, and its recurrence ends with it",
		"internal/settle/recurrence.go",
		"		case m.row.State != task.Pending:\n			p.Ended(m.row, t.lockedAt)\n",
		"		case m.row.State != task.Pending:\n",
		"internal/worker TestEachEndMakesTheNextTick TestSkippedTickIsFollowed",
	},
	{
		"a tick's task ends by SQL of another program",
		"internal/reconcile/recurrences.go",
		"return t.UpdatedAt.After(settled)",
		"return true",
		"internal/reconcile TestRecurrencesLeftBehind TestRecurrenceLeftBehindAFullPage",
	},
	{
		"a tick's row is purged before the tick has passed",
		"internal/store/purge.go",
		"dedup_key IS NULL OR NOT (",
		"dedup_key IS NULL OR 1 = 1 OR NOT (",
		"pkg/schedule TestPurgedTickIsNotRepeated",
	},
	{
		"a stop leaves an earlier task that a later tick has overlapped",
		"pkg/schedule/recur.go",
		"(i >= 0 || take == takeAll)",
		"(i >= 0)",
		"internal/worker TestHaltTakesBackOverlaps",
	},
	{
		"a recurrence that another transaction has locked makes no next tick",
		"internal/settle/recurrence.go",
		"	return t.holdLocked(ids)",
		"	return nil",
		"internal/worker TestRolledBackTick; pkg/schedule TestRecurrenceFromManyConnections",
	},
	{
		"a handler stops the recurrence whose task it runs, and the task with it",
		"pkg/schedule/recur.go",
		" || slices.Contains(t.own, row.ID)",
		"",
		"internal/worker TestHandlerChangesItsRecurrence",
	},

	// Operations.
	{
		"two daemons read one cursor of an operation",
		"internal/store/operations.go",
		"return s.operation(ctx, q, id, s.dialect.ForUpdate())",
		`return s.operation(ctx, q, id, "")`,
		"internal/reconcile TestOperationOfTwoDaemons",
	},
	{
		"an operation changes tasks that were made after it",
		"internal/transition/operation.go",
		"return !t.CreatedAt.After(o.CreatedAt) && FilterMatches(o.Filter, t)",
		"return FilterMatches(o.Filter, t)",
		"internal/transition TestOperationMatches; internal/reconcile TestOperationCancelsTick",
	},
	{
		"an operation exceeds its limit",
		"internal/reconcile/operation_page.go",
		"transition.Room(o, p.size)",
		"p.size",
		"internal/reconcile TestOperationWithALimit",
	},
	{
		"an operation delays tasks that are due",
		"internal/reconcile/busy.go",
		"n == busyRows {",
		"n < 0 {",
		"internal/reconcile TestOperationMakesWayForTasks TestOperationIsPaced",
	},

	// Transactions and handlers.
	{
		"a swallowed deadlock lets later statements commit one by one",
		"internal/store/conn.go",
		"	if c.cause == nil {",
		"	if true {",
		"internal/store TestSwallowedLossPoisons",
	},
	{
		"a handler's statements in a lost joined transaction commit one by one",
		"pkg/schedule/tx_statement.go",
		"	if t.doubtful || t.ledger.Err() != nil {",
		"	if false {",
		"internal/worker TestReaderInALostJoin",
	},
	{
		"a task that a batch-mate has moved or cancelled runs",
		"internal/settle/invoke.go",
		"		m.stage, m.verdict = stageDecided, verdict{result: resultStale, settled: true}",
		"		m.verdict = verdict{result: resultStale, settled: true}",
		"internal/worker TestHandlerThatChangesBatchMatesAndItself",
	},
	{
		"a reader writes a verdict over what a handler has changed",
		"internal/settle/invoke.go",
		"	case m.stage == stageWaiting, unsaved:",
		"	case m.stage == stageWaiting, unsaved && false:",
		"internal/worker TestReaderMeetsAChangedVerdict",
	},
	{
		"a task that kills its process is never charged",
		"internal/settle/charge.go",
		"if m.stage == stageWaiting && m.hint.Suspect && m.hint.Charge.State != hold.Charged {",
		"if false && m.hint.Suspect {",
		"internal/worker TestTaskThatKillsItsProcessIsDeadAfterItsAttempts",
	},
	{
		"suspects of two queues run side by side",
		"internal/worker/queue.go",
		"	q.hold.ShareSeat(w.suspect)\n",
		"",
		"internal/worker TestSuspectsOfAllQueuesRunOneAtATime",
	},
	{
		"several workers charge one suspect",
		"internal/settle/decide.go",
		"	if justCharged(f.hint, v.charge, f.row, f.lockedAt) {",
		"	if false {",
		"internal/worker TestTasksThatSeveralFindAreChargedOnce",
	},
	{
		"a stop keeps the group while a handler goes on for long",
		"internal/worker/stop.go",
		"l.runners.waitFor(leaveAfter)",
		"l.runners.Wait()",
		"internal/worker TestStopLeavesTheGroupWhileAHandlerRuns",
	},
	{
		"a partition is handed over with a handler running",
		"internal/worker/handover.go",
		"		if !busy[part] {",
		"		if true {",
		"internal/worker TestPartitionThatIsLostWithAHandlerRunningIsSuspect",
	},
	{
		"an early hint is put back under its own version",
		"internal/settle/decide.go",
		"		v.holdUntil(f.now.Add(wait), f.hint.Lane)\n		v.result = resultEarly\n",
		"		v.settle(resultEarly)\n		v.put = true\n",
		"internal/test/protocoltest TestRaces/settle-early-hint",
	},
	{
		"a COMMIT that was not answered counts as refused",
		"internal/ledger/transact.go",
		"	case store.Ambiguous(err):",
		"	case false:",
		"pkg/schedule TestLostCommitIsNeverRunAgain; pkg/console TestLostCommit",
	},
	{
		"a handler that ignores its time keeps its runner",
		"internal/settle/invoke.go",
		"abandonAfter = 500 * time.Millisecond",
		"abandonAfter = time.Hour",
		"internal/worker TestHandlerThatIgnoresItsTimeIsAbandonedAndCharged",
	},
	{
		"middleware runs its handler twice",
		"pkg/worker/middleware.go",
		"	case w.over.Swap(true):",
		"	case w.over.Swap(true) && false:",
		"internal/worker TestMiddlewareRunsTheHandlerOnce",
	},
	{
		"a handler that ends its connection makes MySQL seem away",
		"internal/settle/loss.go",
		"	if !b.called || !s.databaseAnswers(ctx, b.nextLossCharges()) {",
		"	if true {",
		"internal/worker TestHandlerThatLosesItsConnectionIsCharged",
	},
	{
		"a COMMIT that is never clear is tried for ever",
		"internal/settle/batch.go",
		"			if b.chargeLoss(ctx, err) {\n				continue\n			}\n			b.putOff(",
		"			b.putOff(",
		"internal/worker TestHandlerWhoseCommitIsNeverClearIsCharged",
	},
	{
		"a nested transaction's rollback undoes marks of batch-mates unseen",
		"internal/statement/guard.go",
		"		if err := before(ctx); err != nil {\n			return err\n		}\n",
		"",
		"internal/worker TestNestedTransactionUndoesNoMate",
	},
	{
		"a handler ends its batch's transaction in other words",
		"internal/statement/guard.go",
		"	if NoSavepoint(err) {",
		"	if false && NoSavepoint(err) {",
		"internal/worker TestHandlerEndsItsTransactionInOtherWords",
	},
	{
		"an owner of a queue with a rate for each has a crowd, for hours",
		"internal/hold/limit.go",
		"	if e.Far || !e.OwnerSlot.After(now) {",
		"	if e.Far = false; !e.OwnerSlot.After(now) {",
		"internal/hold TestOwnerRate",
	},
	{
		"such a crowd is cancelled",
		"internal/limit/ownerslots.go",
		"now.Sub(o.next) > graceTime {",
		"now.Sub(o.next) > graceTime && false {",
		"internal/limit TestOwnerSlotsOfACancelledCrowd",
	},
	{
		"no hint comes, and several workers look for tasks of one owner with a rate",
		"internal/worker/look.go",
		"share, mayTake = protocol.Share{}, brings",
		"share = protocol.Share{}",
		"internal/worker TestLooksKeepOwnersApart",
	},
	{
		"a follow-up outlives a cancel of its owner's tasks that waited for its parent",
		"internal/store/lock.go",
		"		if !changed {",
		"		if tasks = slices.DeleteFunc(tasks, func(t task.Task) bool { return t.State != task.Pending }); !changed || true {",
		"internal/worker TestCancelOwnerTakesFollowUps",
	},
	{
		"what slipped past a block of its owner runs",
		"internal/settle/decide.go",
		"	case f.bar == protocol.OwnerBlocked:",
		"	case false:",
		"internal/worker TestTaskThatSlippedPastABlock",
	},
	{
		"a task runs whose id is that of one that has ended and left",
		"internal/settle/decide.go",
		"	case f.bar == protocol.IDEnded:",
		"	case false:",
		"internal/settle TestRepeatedTaskIsCancelled",
	},
	{
		"the spec of a task that has ended and left makes another one",
		"internal/store/insert.go",
		"	case len(left) == 0:",
		"	case true:",
		"pkg/schedule TestTheSameSpecAfterItsTaskHasLeft",
	},
	{
		"a row that holds a key leaves, and the key is accepted again",
		"internal/store/ended.go",
		`"state IN (1, 2) AND dedup_key IS NULL AND`,
		`"state IN (1, 2) AND`,
		"internal/store TestConformance",
	},
	{
		"a row that somebody has locked holds up all that are to leave",
		"internal/store/ended.go",
		`" AND updated_at < ? ORDER BY id"+s.dialect.skipLocked()`,
		`" AND updated_at < ? ORDER BY id"+s.dialect.ForUpdate()`,
		"internal/store TestArchiveWaitsForNobody",
	},
	{
		"a worker is refused the follow-ups of a task that it runs while its owner is blocked",
		"internal/settle/transaction.go",
		"	t.changes.AssumeUnblocked(unblocked)\n",
		"	_ = unblocked\n",
		"internal/worker TestBlockBesideARunningHandler",
	},
	{
		"an INSERT of several callers has a task of a blocked owner",
		"internal/store/autocommit.go",
		"created_at + 9223372036854775807 * EXISTS",
		"created_at + 0 * EXISTS",
		"pkg/schedule TestBlockOwner",
	},
	{
		"a process trusts for a moment that nobody is blocked",
		"pkg/schedule/intx.go",
		"		c.store.AwaitBlocks(ctx)\n",
		"",
		"pkg/schedule TestBlockOwner",
	},
	{
		"a handler's session is its batch-mates' too",
		"internal/settle/run.go",
		" || t.guard.Traced {",
		" {",
		"internal/worker TestSessionEndsWithItsHandler",
	},
	{
		"two workers have tasks of one order key",
		"internal/settle/transaction.go",
		"	if err := t.keepOrder(); err != nil {\n",
		"	if err := error(nil); err != nil {\n",
		"internal/worker TestWaitsForWhatAnotherWorkerRuns",
	},
	{
		"a task of an order key fails in a batch",
		"internal/settle/run.go",
		"		t.blockBehindFailed(call)\n",
		"",
		"internal/worker TestFailureInARepeatedBatchHoldsUpItsKey",
	},
	{
		"the end of a task of an order key wakes no other",
		"internal/settle/apply.go",
		"	t.wakeSuccessors()\n",
		"",
		"internal/worker TestWaitingTaskNamesItsHead",
	},
	{
		"a handler ends the task that others of its order key wait for",
		"internal/settle/order.go",
		"t.ledger, t.succeeded, ids)",
		"new(ledger.Tx), nil, ids)",
		"internal/worker TestWaitingTaskNamesItsHead",
	},
	{
		"an operation ends the task that others of its order key wait for",
		"internal/reconcile/compensate.go",
		"ledger.WakeBehind(ctx, r.store, r.cfg.Hooks, tx, nil, nil)",
		"(*ledger.Tx)(nil), error(nil)",
		"internal/reconcile TestOperationWakesWhatWaitsBehind",
	},
	{
		"a caller who reads has a task behind one of another owner",
		"internal/settle/reader.go",
		"		case head != nil && !r.passed[head.ID] && !head.RunAt.After(due.Now): // perhaps of another owner\n",
		"		case head != nil && false:\n",
		"internal/worker TestReaderKeepsTheOrder",
	},
	{
		"a snoozed task that has waited for another one is woken before its time",
		"internal/transition/task.go",
		"	} else if unrun(t) || WaitsBehind(t) {",
		"	} else if unrun(t) {",
		"internal/transition TestSnoozeEndsTheWait",
	},
	{
		"a due task of a pause runs",
		"internal/settle/decide.go",
		"	if f.paused.After(f.lockedAt) &&",
		"	if false &&",
		"internal/worker TestPausedOwnerGoesOnAtTheEnd",
	},
	{
		"a task that a stopped worker puts off to the end of a resumed pause waits until then",
		"internal/reconcile/pauses.go",
		"			w.next = w.began.Add(max(wakeInterval, since))\n",
		"			w.next = pause.Until\n",
		"internal/reconcile TestResumeWakesWhatAPauseHasPutOff",
	},
	{
		"a head that waits for its retry can't be run at once",
		"internal/settle/reader.go",
		"	if row.DueAt.After(found.Now) { //",
		"	if locked.RunAt.After(found.Now) { //",
		"internal/worker TestRunNowOfAHeadThatFailed",
	},
	{
		"SQL of another program leaves a row of duetime_orders",
		"internal/store/orders.go",
		" AND w.state = 0\" + others",
		"\" + others",
		"internal/worker TestOrderOfAForeignEnd",
	},
	{
		"a handler goes back to a savepoint of a batch-mate",
		"internal/settle/invoke.go",
		"	if ended := t.release(); t.endedEarly || err == nil {",
		"	if ended := error(nil); t.endedEarly || err == nil {",
		"internal/worker TestSavepointEndsWithItsHandler",
	},
	{
		"a change that an inner rollback has undone is put into the index",
		"pkg/schedule/join.go",
		"	if j.checks <= 1 || len(j.ledger.Touched(0)) == 0 {",
		"	if true {",
		"pkg/schedule TestCommitAfterAnInnerRollback",
	},
	{
		"a follow-up under the running task's own key is lost",
		"internal/settle/ownkey.go",
		"if o.ID == wanted.ID || sameKey(o, wanted, spec.Kind().Names()) && !changes {",
		"if false && (o.ID == wanted.ID || sameKey(o, wanted, spec.Kind().Names()) && !changes) {",
		"internal/worker TestFollowUpUnderItsOwnKeyIsRefused",
	},
	{
		"two versions of a service schedule by one key at one moment, each under its name of a renamed kind",
		"pkg/schedule/tx_schedule.go",
		"		err = t.checkOtherNames(ctx, specs, standing, now)\n",
		"		err = nil\n",
		"pkg/schedule TestKeyUnderTwoNamesSideBySide",
	},
	{
		"tasks that fail again and again take the runners of others",
		"internal/settle/decide.go",
		"		return hold.LaneRetry",
		"		return hold.LaneSingle",
		"internal/worker TestWhoIsWellDoesNotWaitForWhoFails",
	},

	// Tasks delivered by HTTP.
	{
		"a dead endpoint uses its tasks' attempts up",
		"pkg/deliver/breaker.go",
		"return c.ConsecutiveFailures >= failuresToOpen }",
		"return false }",
		"pkg/deliver TestOpenBreakerKeepsTasksWaiting TestBreakerCloses",
	},
	{
		"an endpoint asks for patience without an end",
		"pkg/deliver/answer.go",
		" && now.Sub(transition.FiredFrom(t)) < retryAfterFor",
		" && !transition.FiredFrom(t).IsZero()",
		"pkg/deliver TestRetryAfter TestRetryAfterEnds",
	},
	{
		"a name with a public look leads to a private address",
		"pkg/deliver/pusher.go",
		"	d.Control = p.guard.Control(host)",
		"	_ = host",
		"pkg/deliver TestPrivateAddressBehindAPublicName",
	},

	// Kinds, payloads and rows.
	{
		"a payload comes too late, and its outside handler acts for a call that was abandoned",
		"pkg/worker/mux.go",
		"	return ts, ctx.Err() //",
		"	return ts, nil //",
		"internal/worker TestDecodingThatHangs",
	},
	{
		"a task that moves itself uses its attempts up",
		"internal/settle/invoke.go",
		"t.changes.For(c, collect(members, idOf), renew)",
		"t.changes.For(c, nil, renew)",
		"internal/worker TestTaskThatMovesItselfHasItsAttemptsBack TestTaskThatMovesItselfOutlivesRestarts",
	},
	{
		"a task of an unknown kind comes to the same worker each time",
		"internal/stream/route.go",
		"return (p + strides*stride(n)) % n",
		"return p % n",
		"internal/stream TestWaitingTaskComesByAllPartitions TestWaitingTaskSoonLeavesAWorker",
	},
	{
		"a kind of a queue that is in no configuration is scheduled",
		"internal/kinds/kinds.go",
		"	if k.Configures(queue) {",
		"	if true {",
		"pkg/schedule TestKindsThatNobodyRunsAreRefused TestAddedQueueTakesTasksAtOnce; internal/worker TestQueueThatTheConfigurationLacksIsRefused",
	},
	{
		"a queue is retired while a transaction schedules into it",
		"internal/store/queues.go",
		"s.findQueue(ctx, q, queue, s.dialect.forShare())",
		"s.findQueue(ctx, q, queue, \"\")",
		"pkg/console TestRetireMeetsWhoSchedules",
	},
	{
		"a queue is retired although a transaction has scheduled into it meanwhile",
		"pkg/console/addqueue.go",
		"if err := c.checkUnused(ctx, tx, queue); err != nil {",
		"if false {",
		"pkg/console TestRetireCountsUnderTheLock",
	},
	{
		"a row that no worker can run waits for ever",
		"internal/settle/decide.go",
		"	case transition.Impossible(row) != nil:",
		"	case false:",
		"internal/worker TestRowsThatNoLimitOfOursLikes",
	},

	// Index and Redis.
	{
		"a repair replaces what it has not seen",
		"internal/index/lua/repair.lua",
		"if stands(KEYS[1], member, ARGV[i + 2]) and stands(owner, member, ARGV[i + 3]) then",
		"if true then",
		"internal/test/protocoltest TestRaces/reconcile-moved-between-reads TestRaces/reconcile-moved-after-reads TestRaces/reconcile-restless",
	},
	{
		"a row is read before the index, and moves between the reads",
		"internal/reconcile/mend.go",
		`	tasks, seen, err := s.index.Standings(ctx, tasks)
	if err != nil {
		return nil, nil, err
	}
	rows, err := s.rows(ctx, tasks)
	if err != nil {
		return nil, nil, err
	}
`,
		`	rows, err := s.rows(ctx, tasks)
	if err != nil {
		return nil, nil, err
	}
	tasks, seen, err := s.index.Standings(ctx, tasks)
	if err != nil {
		return nil, nil, err
	}
`,
		"internal/test/protocoltest TestRaces/reconcile-moved-between-reads",
	},
	{
		"a speed-up committed, its put was lost",
		"internal/reconcile/overdue.go",
		"if s.right(layout, row, seen[i], allowAbsent) != seen[i] {",
		"if false && s.right(layout, row, seen[i], allowAbsent) != seen[i] {",
		"internal/test/protocoltest TestRaces/reconcile-sped-up-never-put",
	},
	{
		"a cancel's drop overtakes its task's put inside one large flush",
		"internal/indexwriter/flush.go",
		"return func(t task.Task) bool { return t.Version < newest[t.ID] }",
		"return func(task.Task) bool { return false }",
		"internal/indexwriter TestLargeFlushPutsTheNewestOfATask",
	},
	{
		"Redis is flushed midway of its rebuild, and counts as complete",
		"internal/index/lua/finish.lua",
		"if stored == ARGV[1] then",
		"if true then",
		"internal/index TestRebuildMarker",
	},
	{
		"Redis refuses writes because its snapshots fail",
		"internal/index/errors.go",
		`		"MISCONF", // Redis refuses writes while snapshots fail` + "\n",
		"",
		"internal/index TestServerWhoseSnapshotsFailIsAway",
	},
	{
		"one failing shard fails the puts of all others",
		"internal/indexwriter/flush.go",
		"	if !partial {",
		"	if !partial || err != nil {",
		"internal/indexwriter TestFailingShardIsNobodyElsesTrouble",
	},
	{
		"a list is read from one place while the owner's tasks stand in two",
		"pkg/schedule/list_all.go",
		"	case len(standing) != 1:",
		"	case false:",
		"pkg/schedule TestListsWhileRowsMove",
	},
	{
		"a row that is inserted with an old number of shards stays there",
		"internal/reconcile/mend.go",
		"	rows, err = s.rehomeMisplaced(ctx, layout, rows)\n",
		"",
		"internal/reconcile TestStaleInsertIsMet TestLatePutIntoTheOldPlaceIsRemoved",
	},

	// Dispatch, Kafka and offsets.
	{
		"an entry that can't be published stays at the head of its shard",
		"internal/dispatch/publish.go",
		"case r.count >= maxRefusals, full && kafka == kafkaWell:",
		"case full && kafka == kafkaWell:",
		"internal/test/protocoltest TestRaces/dispatch-head-starves-nobody TestRaces/dispatch-refused-thrice",
	},
	{
		"a refused entry is sent again with each pass",
		"internal/dispatch/publish.go",
		"return wait <= 0 || wait > laterRetry",
		"return wait <= 0 || wait > 0",
		"internal/test/protocoltest TestRaces/dispatch-mute-queue TestRaces/dispatch-refused-thrice",
	},
	{
		"offsets committed for an old generation rewind the group",
		"internal/offsets/commit.go",
		" && !g.over",
		"",
		"internal/hold TestOldGenerationsResultsAreNeverCommitted; internal/offsets TestPrefixCommitsNoOffsetBeforeAnUnsettledOne",
	},
	{
		"rows that wait in a backlog raise the alarm",
		"internal/reconcile/overdue.go",
		"			if lost[row.ID] {",
		"			if lost[row.ID] || true {",
		"internal/test/protocoltest TestRaces/reconcile-backlog-explains-ten-minutes TestRaces/reconcile-settled-during-overdue",
	},

	// Workers without hints.
	{
		"looks go on when hints come again",
		"internal/worker/degraded.go",
		"	if m.degraded && now.Sub(m.news) > calm {",
		"	if false {",
		"internal/worker TestLooksGiveWayToHints",
	},
	{
		"the tasks of a worker that has ended are nobody's",
		"internal/worker/look.go",
		"	if first[0].RunAt.Before(old) {",
		"	if false {",
		"internal/worker TestWorkersBeyondThePartitionsHaveWork",
	},
	{
		"a found row that is locked is held",
		"internal/settle/transaction.go",
		"m.hint.Dropped = m.hint.Found && m.hint.Charge.State == hold.Uncharged",
		"m.hint.Dropped = false",
		"internal/worker TestLooksDropWhatIsLocked TestLooksDoNotHurryForSlowHandlers",
	},
	{
		"a found task that has ended its process is no suspect",
		"internal/hold/hint.go",
		"h.Found, h.Suspect = true, !row.RunAt.After(now)",
		"h.Found = true",
		"internal/worker TestStopRefundsWhatLooksCharged TestLooksDropWhatIsLocked",
	},

	// Leaders and ZooKeeper.
	{
		"a leader that Kafka takes nothing of keeps its place",
		"internal/dispatch/health.go",
		"	if took || h.unpublished.Load() == 0 {",
		"	if true {",
		"internal/test/protocoltest TestRaces/dispatch-no-progress",
	},
	{
		"a daemon that has lost Redis keeps its place",
		"internal/reconcile/progress.go",
		"if _, partial := protocol.FailedShards(err); err == nil || partial {",
		"if true {",
		"internal/reconcile TestLostIndexIsNoProgress TestSomeShardsAreProgressAndNoneIsNot",
	},
	{
		"a frozen leader wakes up beside its successor",
		"internal/index/lua/prelude.lua",
		"if stored and tonumber(stored) > tonumber(epoch) then",
		"if false then",
		"internal/index TestOlderEpochIsFenced; internal/test/protocoltest TestRaces/dispatch-zombie",
	},
	{
		"a candidate that was frozen between place and epoch outranks its successor",
		"internal/elect/candidate.go",
		"	if err := c.mustBeFirst(ctx); err != nil {\n		return err\n	}\n	if !c.endTerm(",
		"	if !c.endTerm(",
		"internal/elect TestConformance/.*/frozen_between_place_and_epoch",
	},

	// MySQL's servers and sessions.
	{
		"the database's clock is set, and older probes count on",
		"internal/loop/clock.go",
		" || s.contradicts(old)",
		"",
		"internal/loop TestClockFollowsADatabaseWhoseClockIsSet",
	},
	{
		"a connection with a caller's leftovers is used again",
		"internal/store/conn.go",
		" && !c.leftTrace",
		"",
		"internal/store TestSessionIsRenewedAfterACallersSet TestSessionThatATransactionChangedIsNotUsedAgain",
	},
	{
		"a proxy ignores AND CHAIN",
		"internal/store/conn_chain.go",
		"	if c.chain.confirmed {",
		"	if true {",
		"internal/store TestChainThatIsIgnored TestChainIsAskedForOnce",
	},
	{
		"a primary that was replaced and lives on read-only answers",
		"internal/store/primary.go",
		"	return errReadOnly\n",
		"	return nil\n",
		"internal/store TestOldPrimaryAnswersNothing",
	},

	// Configuration, links and operators.
	{
		"the DSN asks for TLS without checking the server",
		"internal/dsn/dsn.go",
		`if problem := p.problem(); problem != "" {`,
		`if problem := p.problem(); problem != "" && false {`,
		"internal/dsn TestOthersAreRefusedByName",
	},
}
