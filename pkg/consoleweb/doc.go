// Package consoleweb serves a console.Console as web pages: Handler, with a Config that says who may see and do what.
//
// It promises that nobody does what his grant lacks, that each change is shown before it is made, and that each bears its user's name
// in the history. It never reads a server but through the Console. A program that doesn't import it has no templates and no pages.
package consoleweb
