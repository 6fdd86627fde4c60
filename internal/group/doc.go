// Package group counts the members of groups, and schedules a group's follower in the transaction in which its last member ends.
//
// It promises that a group that is sealed, and whose members have all ended in our transactions, has its follower exactly once, and
// that the follower's payload has the members' counts. A member that ends elsewhere, as by SQL of somebody else, is counted by the
// daemon ([Mend]). A follower whose owner is blocked is not made: the group says why. This package never decides how a member ends.
//
// # Counts
//
// A row for each group would be locked by each transaction that ends some of its members, until its COMMIT: of 5,000 members that
// are due at one moment, one batch would wait for the other. So the counts have parts ([Parts] of them), and the sums over the parts
// count. No part has members of its own: a transaction takes what it ends from any part that has enough open members and that
// nobody else has locked. If there is none, it locks all parts, in their order, and takes from several.
//
// The group's row has the number of parts with open members, and one more while the group is not sealed: OpenParts. A transaction
// that empties or fills a part locks the group's row as well, and so does one that adds members or seals.
//
// # Steps
//
// When a transaction has done all else, just before its COMMIT (see package ledger), it does this for each group that it changed, in
// the order of their names:
//
//  1. It locks a part, or all. From here on it waits for nobody's handler: all who lock a part are about to commit.
//  2. It computes the new counts. Unless a part was emptied or filled, it writes the part, and that is all.
//  3. It locks the group's row. A group that is sealed gets no further member: the transaction fails, and runs again. A group that has
//     ended gets no open member either: a dead one that is retried leaves it.
//  4. If OpenParts becomes 0, the last member has ended: it sums the parts up, and inserts the follower.
//
// # Why the follower comes once, after the last
//
//   - OpenParts is the number of parts that are not empty, and one for an unsealed group, whenever nobody has the row locked: who
//     changes whether a part is empty holds the locks of the part and of the row until his COMMIT.
//   - So one transaction brings it to 0, and it stays 0: afterwards the group is sealed, and has ended.
//   - That transaction sees all counts. A part that is empty has been emptied by a transaction that held the row's lock after all
//     others that changed the part, and so has committed: at READ COMMITTED a statement behind the lock sees it. The part's counts of
//     ended members are written with its open ones.
//   - A rollback, also to a savepoint, takes counts and rows back together: the counts follow from the transaction's list at its end,
//     or, in a transaction that its caller commits, right behind the rows.
//
// # Members that were not counted
//
// The daemon compares the counts of open groups with the rows of their members, which may be millions: whoever ended a member while
// the counts are locked would wait for seconds, and an outside handler would act twice. So it counts without a lock:
//
//  1. One statement reads the counts and counts the rows of a page of members, so both are of one moment: [Count]. If counts
//     and rows agree after the last page, that is all. If the counts were written between two pages, it begins anew later.
//  2. A transaction locks the counts, and adds the difference ([Mend]). Since then our transactions may have changed rows and counts,
//     but both alike: the difference is still the same. Others may have changed rows: the next count finds that.
//  3. If the group was checked since the statement, another daemon may have added the same difference: then nothing is added.
//
// # Order of locks
//
// Tasks, recurrences, rows of services, then groups in the order of their names; of a group its parts in their order, then its row.
// A part that is locked without waiting is of the same group as the locks that are waited for next, or of an earlier one.
package group
