// Package consoleweb serves a console.Console as web pages: Handler, with a Config that says who may see and do what.
//
// It promises that nobody makes a change that their grant lacks, and that each change is shown before it is made and bears its user's
// name in the history. It reads no server but through the Console. A program that doesn't import it links no templates and no pages.
package consoleweb
