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
//  1. Read the pet without a lock, and decide by what it says.
//  2. Move or cancel the task, which locks its row.
//  3. Lock the pet, and look whether it is still as it was in step 1. If not, roll back and begin again.
//
// Feeding locks the pet first: it makes a new task, which no worker can hold yet.
package pet
