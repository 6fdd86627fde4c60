// Package browser drives the console and the game's page in Chromium, against real servers. It is a module of its own, so that
// nobody who uses duetime needs its dependencies.
package browser
