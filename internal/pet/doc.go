// Package pet is the reference game: pets that eat for four hours, cards that make a meal shorter, cards that feed the
// pet again when it ends. It shows how a service uses duetime and is what the end-to-end tests play.
//
// It owns its tables (pets, pet_journal, pet_requests), its HTTP API and the effect of a finished meal. It promises that
// each journal line stands for one committed change, and that a repeated request with the same Idempotency-Key changes
// nothing twice.
//
// # Lock order
//
// Workers lock the task and then the pet. A game's first thought is the other way round, and opposite orders deadlock. So
// each change of a meal goes:
//
//  1. Read the pet and its task without a lock, and decide by the rules. Nothing is written before that, so a refusal
//     can be kept for its Idempotency-Key in the same transaction.
//  2. Move or cancel the task, which locks its row. From here on its meal can't end.
//  3. Lock the pet, and look whether it still has that meal, and the card. If not, roll back and begin again.
//
// An owner's pets are sped up the same way: all tasks in id order, then all pets in id order. Feeding locks the pet
// first: it makes a new task, which no worker can hold yet. So does arming a card: it changes no task.
//
// A row that stays locked for as long as the session waits (2 s) is answered with "busy" at once. Only deadlocks, and
// what changed between the steps above, begin again by themselves.
package pet
