// Package vitess runs the product's tests of SQL, and the game, on an unsharded Vitess, and gives every statement to Vitess' parser.
// It is a module of its own, so that nobody who uses duetime needs its dependencies.
package vitess
