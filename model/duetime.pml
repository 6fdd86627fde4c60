/*
 * The protocol of duetime, as built, for one task. docs/MODEL.md says what is left out and why that is sound;
 * scripts/model runs it. A step is one d_step: what one transaction, one Lua script or one Kafka call does at once.
 * Between two steps anything else may happen.
 *
 * Where each step stands in the code:
 *
 *   game.pml       schedule       pkg/schedule/insert.go Tx.ScheduleMany, internal/store/insert.go Store.Insert
 *                  reschedule     pkg/schedule/change.go Tx.RescheduleMany, internal/transition/task.go Move
 *                  cancel         pkg/schedule/change.go Tx.CancelMany, internal/transition/task.go Cancel
 *                  (all three)    their commit: pkg/schedule/client.go Client.try; their put: indexer.go indexer.tryPut
 *   index.pml      put, drop      internal/index/lua/put.lua, drop.lua (guard: prelude.lua newer, latest)
 *                  arrive         internal/index/put.go Index.Put
 *                  lose, told     pkg/schedule/indexer.go indexer.flush and backlog.go backlog.send
 *                  lose, untold   pkg/worker/after.go aftermath.write; a process killed between commit and put
 *   dispatch.pml   claim          internal/dispatch/pass.go shard.pass, internal/index/lua/claim.lua
 *                  publish        internal/dispatch/publish.go shard.send, internal/stream/kafka.go Kafka.Publish
 *                  ack            internal/index/claim.go Index.acks, internal/index/lua/ack.lua
 *                  fenced         prelude.lua fence; pass.go shard.pass, internal/elect/candidate.go candidate.regain
 *                  elect          internal/elect/candidate.go candidate.begin, internal/store/epochs.go Store.TakeAbove
 *   worker.pml     fetch          internal/worker/queue.go queue.accept, internal/hold/hold.go Hold.Add
 *                  find           internal/worker/look.go looker.look, internal/hold/hint.go FoundHint
 *                  join           internal/hold/hold.go Hold.Add
 *                  drop           internal/settle/transaction.go transaction.judgeAbsent, internal/hold/hold.go Hold.Release
 *                  look           internal/hold/hold.go Hold.takeDue, internal/settle/transaction.go batch.transact, transaction.lock
 *                  missing        internal/settle/transaction.go transaction.judgeAbsent
 *                  ended          internal/settle/decide.go decide
 *                  stale, far, early   internal/settle/decide.go verdict.decideEarly
 *                  due            internal/settle/decide.go verdict.decideDue
 *                  commit         internal/settle/transaction.go transaction.markDone, commit,
 *                                 internal/store/save.go Store.Finish
 *                  fail, discard  internal/settle/charge.go chargeFailure, internal/transition/task.go Fail and Discard
 *                  charge         internal/settle/charge.go transaction.chargeSuspects and chargeBeforehand
 *                  exhausted      internal/settle/decide.go exhausted
 *                  settle         internal/settle/apply.go transaction.apply, internal/offsets/commit.go Generation.Commit
 *   reconcile.pml  overdue        internal/reconcile/overdue.go overdue.sort, overdue.put, turn.has
 *                  sweep, see     lookahead.go, changed.go, audit.go: Reconciler.mendUnlike, auditIndex.check
 *                  compensate     internal/reconcile/compensate.go Reconciler.putIDs
 *                  standings, row, repair, again   internal/reconcile/mend.go Reconciler.compare, right, again;
 *                                 internal/index/lua/standings.lua, repair.lua
 *                  fill           mend.go Reconciler.fill and moved, rebuild.go rebuild.fill; internal/index/lua/fill.lua
 *                  begin, scan, recent, finish   internal/reconcile/rebuild.go rebuild.begin, scan, pass, end;
 *                                 internal/index/lua/begin.lua, finish.lua
 *   faults.pml     what no line of ours does
 *
 * Numbers: T ticks of the database's clock; M versions that a score tells apart (4096 in the code; 4 or 8 here); a
 * hint goes out LEAD ticks early; a worker holds one for PATIENCE ticks at most; a look finds rows AHEAD ticks
 * early. The first version is M-2, so that counting goes round the window. A fault costs one of FAULTS; its kinds are
 * switched on by name (LOSE_WRITES, PHANTOM, FLUSH …), and so are looks (FIND), handlers that end their process (KILL) or
 * act outside their transaction (OUTSIDE), and the ways to break the protocol (NO_ROW_CHECK, GUARDED_PUT, REMOVE_FIRST …).
 */

#define T 2
#ifndef M
#define M 4
#endif
#ifndef CHANGES
#define CHANGES 1 /* reschedules and cancels by the game */
#endif
#ifndef FAULTS
#define FAULTS 2 /* faults of the kinds that are switched on, in any order, at any moment */
#endif
#ifndef DISPATCHERS
#define DISPATCHERS 1
#endif
#ifndef WORKERS
#define WORKERS 1
#endif
#ifndef DAEMONS
#define DAEMONS 1
#endif
#define LEAD 1
#define PATIENCE 1
#define AHEAD 1

/* A score is a time and a version; 0 is an absent entry. */
#define SCORE(at, v) (1 + (at) * M + (v) % M)
#define TIME(s) (((s) - 1) / M)
#define VERSION(s) (((s) - 1) % M)
#define BIT(n) (1 << (n))

/* MySQL: the row, and the journal that the effect writes in the same transaction. */
#define ABSENT 0
#define PENDING 1
#define DONE 2
#define CANCELLED 3
#define DEAD 4
byte state, due, next, version; /* next is run_at */
byte effects;
byte attempt;                   /* charged beforehand */
byte locked;                    /* the workers whose transactions hold the row: one at most, if locks hold */
byte found;                     /* the workers that hold a row which a look found, and no message brought */
#if defined(NO_LOCK)
#define LOCKED 0
#elif defined(FIND_UNLOCKED)
#define LOCKED (locked & ~found)
#else
#define LOCKED locked
#endif
byte counter;                   /* the epoch of "event" */
byte now;

/* Redis: the task's entry in the due set and in its owner's set, the fence, the generation marker. */
#define COMPLETE 255
byte inDue, inOwner, fence, marker = COMPLETE;
bit wiped;                      /* since the last rebuild began */

/* What is on its way to Redis: a set of puts by score, and of drops by version. */
int puts;
byte drops;

/* Kafka: unread hints by score, those that will be delivered once more, and the compensation topic. */
int hints, twice;
bit compensation;

byte faultsLeft = FAULTS; /* faults that may still happen */

bit cancelled; /* cancel answered yes */

#include "index.pml"
#include "game.pml"
#include "dispatch.pml"
#include "worker.pml"
#include "reconcile.pml"
#include "faults.pml"

proctype clock() {
end: do
     :: now < T -> now++
     od
}

/* When nothing can happen any more the task has ended, for all times lie within T, and the sweeps left no ghost. */
proctype judge() {
end: if
     :: timeout ->
#ifdef SWEEP
	assert(NOTHING || state == PENDING); /* ghost */
#endif
	assert(state != PENDING) /* lost */
     fi
}

init {
	atomic {
		run clock(); run game(); run wire();
		run worker(0); run daemon(1);
#if DISPATCHERS > 0
		run dispatcher(0);
#endif
#if DISPATCHERS > 1
		run dispatcher(1);
#endif
#if WORKERS > 1
		run worker(1);
#endif
#if DAEMONS > 1
		run daemon(2);
#endif
		run faults(); run judge()
	}
}
