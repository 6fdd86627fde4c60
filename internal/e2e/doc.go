// Package e2e proves the whole pipeline from the outside: real MariaDB, Redis, ZooKeeper and Kafka, our binaries as
// separate processes, the pet game played over HTTP. It holds tests only.
//
// It promises that nothing is taken on trust from the code under test: what happened is read from the game's journal,
// from the log of what the players were answered, and from the processes' own output, metrics and exit codes. Figures
// (lag, the time to heal after a fault) are printed as measured, and held to loose bounds only, since the machine may be
// busy with something else; wrong effects are never excused.
//
// It never reaches into a process, and imports nothing of the pipeline.
//
// The sizes come from the environment: DUETIME_E2E_PETS (500), DUETIME_E2E_FOR (15s), DUETIME_E2E_MEAL (a third of that
// time, 20s at most). make e2e plays the full game.
package e2e
