// Package api serves duetime to services in any language: gRPC, gRPC-Web and JSON over HTTP by one handler, as
// proto/duetime/v1 says.
//
// It owns who may call what (access.go) and sees of the places of lists (cursor.go), what a request may hold beyond the
// library's own limits (input.go, limits.go), how errors are told (errors.go), also those of JSON that is no message (wrong.go,
// form.go) and of requests that are no calls (http.go), and the page that describes the calls (page.go). It decides nothing
// about tasks: pkg/schedule and pkg/console do, and a call is one call of theirs.
//
// It promises that an answer other than OK has changed nothing, but for the code UNKNOWN with the reason COMMIT_UNKNOWN, and
// for INTERNAL, which may follow a panic; that an answer which says so has a reason where clients make its code themselves;
// that a token sees and changes nothing outside of its scope, and can't tell what is outside of it from what is not there; and
// that a change that carries a version is made only to that version. It never shows the text of an error that is none of the
// caller's.
package api
