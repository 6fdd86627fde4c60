// Package pet is the reference game: pets that eat for four hours, cards that make a meal shorter, cards that feed the
// pet again when the meal ends. It shows how a service uses duetime, and the end-to-end tests play it.
//
// It owns its tables (pets, pet_journal, pet_requests), its HTTP API and the effect of a finished meal. It promises that
// each journal line stands for one committed change, and that a repeated request with the same Idempotency-Key changes
// nothing twice.
//
// # Lock order
//
// Workers lock the task and then the pet. A game would naturally lock the pet first, and opposite orders deadlock. So
// each change of a meal goes:
//
//  1. Read the pet and its task without a lock, and decide by the rules. Nothing is written before that, so a refusal can
//     be stored for its Idempotency-Key in the same transaction.
//  2. Move or cancel the task, which locks its row. From here on its meal can't end.
//  3. Lock the pet, and check that it still has that meal, and the card. If not, roll back and start over.
//
// An owner's pets are sped up in the same order: all tasks by id, then all pets by id. Feeding locks the pet first: it
// makes a new task, which no worker can hold yet. Arming a card locks the pet first too: it changes no task.
//
// A read of one pet settles first what is due for its owner. That locks tasks, and then pets, in the same order.
//
// If a row stays locked for as long as the session waits (2 s), the answer is "busy" at once. Only deadlocks, and pets
// that changed between the steps above, are retried.
package pet
