// Package limit shares a queue's limit among all its workers: the rate of handler calls, and the transactions at once. It also keeps
// the rate of each owner.
//
// A worker asks MySQL for a lot of both, not for each task; at a low rate a lot is one slot. A worker that gets none, because slots
// are leased far enough ahead, asks again when more may be leased, or after a second. It writes the queue's row only if the row
// is as it was read, so that lots don't overlap, and a worker that is frozen in between keeps no lock.
// The package decides what a worker gets; internal/store keeps the rows, internal/hold spends the lots, pkg/worker asks.
//
// # The rate
//
// The rate divides time into slots, each for one call. The row says up to which moment slots are leased. A worker leases the
// slots that follow, and hands out a hint for each slot that has come. All workers together lease no slot that comes after half
// a second from now. A slot is lost if it was not used for 300 ms, nor until the next one came. A worker that ends takes its
// slots with it, about a lot, and no worker's clock counts but the database's. Slots that nobody leased in their time, because
// all workers stood still, are made good by slots that come a little faster; so are slots that were lost.
//
// # The rate of an owner
//
// All hints of an owner come to one worker, whose hold asks OwnerSlots, in memory. A slot within a second is the task's at once. Beyond, tasks
// are put off to slots in a line: the row keeps the moment, so that a crowd fills no worker. When a task comes back it takes a near
// slot; these are what keeps the rate, and a line only says about when. So a promise that nobody keeps, because a task
// was cancelled or a worker died, costs no call, and a line whose slots nobody takes for a second is over. Whoever comes at its slot and
// finds it taken stands in a second line, and with it all that come after it: the first line moves on by as much as was lost, and none
// of it goes to its end.
//
// # Concurrency
//
// A permit lets one transaction run. Permits last two seconds and are renewed twice a second. A worker whose permits have
// expired, because it was frozen or MySQL was away, hands out nothing until it has new ones. What it has in hand meanwhile
// runs on: for that long there may be more at once. If the database's clock is set back, permits of before last two seconds from then on.
// The row names 350 workers at most. Where more want permits, one that has had its turn makes room.
package limit
