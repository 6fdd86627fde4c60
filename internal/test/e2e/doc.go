// Package e2e holds our commands to their contract with whoever operates them: what they wait for, when they say ready,
// what ends them, with which exit code and which one line. It runs the binaries as separate processes on real servers and
// looks at their output, their HTTP and their exit codes alone; it imports nothing of the pipeline. It holds tests only.
package e2e
