package stream

import (
	"bytes"
	"strconv"

	"github.com/duetime/duetime/pkg/task"
)

// scanHint reads a hint in exactly the form of appendHint; false for any other text, which may still be JSON.
// encoding/json takes ten times as long, an eighth of a worker's time for a hint.
func scanHint(b []byte) (w wireHint, ok bool) {
	s := scanner{unread: b}
	id := s.text(`{"id":"`)
	w.Kind = s.text(`,"kind":"`)
	w.Owner = s.text(`,"owner":"`)
	w.RunAt = s.number(`,"run_at":`)
	w.Version = s.number(`,"version":`)
	if bytes.HasPrefix(s.unread, []byte(`,"epoch":`)) {
		w.Epoch = s.number(`,"epoch":`)
	}
	w.At = s.number(`,"at":`)
	if s.failed || string(s.unread) != "}" {
		return w, false
	}
	var err error
	w.ID, err = task.ParseID(id)
	return w, err == nil
}

// scanner reads parts from the front of a text.
type scanner struct {
	unread []byte
	failed bool
}

func (s *scanner) literal(l string) {
	if !bytes.HasPrefix(s.unread, []byte(l)) {
		s.failed, s.unread = true, nil
		return
	}
	s.unread = s.unread[len(l):]
}

// text reads up to the next quote after the literal. It fails if the text has, or needs, escapes.
func (s *scanner) text(before string) string {
	s.literal(before)
	for i, c := range s.unread {
		if c == '"' {
			t := string(s.unread[:i])
			s.unread = s.unread[i+1:]
			return t
		}
		if c == '\\' || c < ' ' {
			break
		}
	}
	s.failed, s.unread = true, nil
	return ""
}

// number reads a whole number without a sign, in a form that JSON accepts too.
func (s *scanner) number(before string) int64 {
	s.literal(before)
	n := 0
	for n < len(s.unread) && s.unread[n] >= '0' && s.unread[n] <= '9' {
		n++
	}
	v, err := strconv.ParseInt(string(s.unread[:n]), 10, 64)
	if err != nil || n > 1 && s.unread[0] == '0' {
		s.failed, s.unread = true, nil
		return 0
	}
	s.unread = s.unread[n:]
	return v
}
