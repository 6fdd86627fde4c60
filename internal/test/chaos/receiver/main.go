// Command receiver is an endpoint of tasks that are delivered by HTTP, made as docs/PUSH.md asks for: it checks each signature,
// and acts once on each webhook-id. The fault suite kills and freezes it.
//
//	receiver ADDRESS FILE SECRET
//
// All that it does goes into the file, a line of JSON for each try, effect and answer. It reads the file at its start: what it
// has written survives its death. It fails the first try of one id in eight, before it acts.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// think is the time between the effect and its answer, in which the process may die.
const think = 50 * time.Millisecond

// What a line tells of.
const (
	tried    = "try"     // a request came
	forged   = "forged"  // a request came whose signature is wrong
	acted    = "effect"  // the effect of an id; it is written before the first 2xx
	answered = "answer"  // an answer of 2xx was given to the kernel
	failed   = "failure" // an answer other than 2xx is about to be given
)

// line is what happened with one request.
type line struct {
	What  string `json:"what"`
	ID    string `json:"id"`
	At    int64  `json:"at"`    // Unix ms
	Sent  int64  `json:"sent"`  // webhook-timestamp, in s
	Due   int64  `json:"due"`   // ce-time, in Unix ms
	Order string `json:"order"` // of the body
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: receiver ADDRESS FILE SECRET")
	}
	r, err := open(args[1], args[2])
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	log.Print("listening")
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	return server.Serve(l)
}

// receiver is safe for concurrent use.
type receiver struct {
	secret []byte

	mu    sync.Mutex
	file  *os.File
	known map[string]bool // the word of a line and an id
}

// open reads what earlier processes have done.
func open(path, secret string) (*receiver, error) {
	r := &receiver{known: map[string]bool{}}
	var err error
	if r.secret, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_")); err != nil {
		return nil, err
	}
	if r.file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600); err != nil { //nolint:gosec // the test's own
		return nil, err
	}
	for lines := json.NewDecoder(r.file); ; {
		var l line
		if err := lines.Decode(&l); errors.Is(err, io.EOF) {
			return r, nil
		} else if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		r.known[l.What+l.ID] = true
	}
}

// ServeHTTP takes one try.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	l := line{At: time.Now().UnixMilli(), ID: req.Header.Get("Webhook-Id")}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the worker has hung up
	}
	if !r.signed(req.Header, body) {
		r.write(l, forged)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var payload struct{ Order string }
	_ = json.Unmarshal(body, &payload)
	due, _ := time.Parse(time.RFC3339Nano, req.Header.Get("Ce-Time"))
	l.Sent, _ = strconv.ParseInt(req.Header.Get("Webhook-Timestamp"), 10, 64)
	l.Due, l.Order = due.UnixMilli(), payload.Order
	if first := r.write(l, tried); first && r.refuse(w, l) {
		return
	}
	r.write(l, acted)
	time.Sleep(think)
	w.WriteHeader(http.StatusNoContent)
	_ = http.NewResponseController(w).Flush()
	l.At = time.Now().UnixMilli()
	r.write(l, answered)
}

// signed verifies a request as Standard Webhooks says.
func (r *receiver) signed(h http.Header, body []byte) bool {
	mac := hmac.New(sha256.New, r.secret)
	mac.Write(fmt.Appendf(nil, "%s.%s.%s", h.Get("Webhook-Id"), h.Get("Webhook-Timestamp"), body))
	return slices.Contains(strings.Fields(h.Get("Webhook-Signature")), "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// refuse fails the try of some ids: with 500, and with a wish for a later try.
func (r *receiver) refuse(w http.ResponseWriter, l line) bool {
	status := http.StatusInternalServerError
	switch l.ID[len(l.ID)-1] {
	case '0':
	case '1':
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "1")
	default:
		return false
	}
	r.write(l, failed)
	w.WriteHeader(status)
	return true
}

// write appends a line by one call of the kernel's, and reports whether it is the first of its word and id. A second effect is
// not written: that is what the id is for.
func (r *receiver) write(l line, what string) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := what + l.ID
	first = !r.known[key]
	if !first && what == acted {
		return false
	}
	l.What = what
	text, _ := json.Marshal(l)
	if _, err := r.file.Write(append(text, '\n')); err != nil {
		panic(err) // it ends the request without an answer: the worker tries once more
	}
	r.known[key] = true
	return first
}
