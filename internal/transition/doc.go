// Package transition says what a row becomes: of a task, a recurrence or an operation. Each transition is a pure function from
// the row before to the row after, at a moment of the database's clock that is passed in. A transition of a task raises its
// version by one; a function that returns the row as it was has nothing to write.
package transition
