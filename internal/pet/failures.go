package pet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// failure is an error in the API's form.
type failure struct {
	status  int
	code    string
	message string
	field   string
}

func (f failure) Error() string {
	if f.field == "" {
		return f.message
	}
	return f.field + " " + f.message
}

func (f failure) answer() answer {
	type body struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Field   string `json:"field,omitempty"`
	}
	return answer{f.status, encode(struct {
		Error body `json:"error"`
	}{body{f.code, f.Error(), f.field}})}
}

func (r rule) failure() failure { return failure{http.StatusConflict, r.code, r.message, ""} }

func invalid(field, message string) failure {
	return failure{http.StatusBadRequest, "invalid", message, field}
}

// fail answers an error.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	f := a.classify(err)
	if f.status >= http.StatusInternalServerError {
		a.logger.WarnContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "status", f.status, "err", err)
	}
	a.write(w, f.answer())
}

func (a *API) classify(err error) failure {
	var f failure
	var refusal rule
	var field *task.FieldError
	var busy busyError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &refusal):
		return refusal.failure()
	case errors.As(err, &field):
		return invalid(field.Field, field.Problem)
	case errors.Is(err, errNoPet):
		return failure{http.StatusNotFound, "not_found", err.Error(), ""}
	case errors.Is(err, errKeyReused):
		return failure{http.StatusUnprocessableEntity, "key_reused", err.Error(), "Idempotency-Key"}
	case errors.Is(err, schedule.ErrCommitUnknown):
		return failure{http.StatusServiceUnavailable, "unavailable", "whether the change was made is unknown: repeat the call, with the same Idempotency-Key if it had one", ""}
	case a.errs.Unavailable(err): // before busy: the last error of a transaction that was retried in vain may be of either kind
		return failure{http.StatusServiceUnavailable, "unavailable", "the database is away, try again", ""}
	case errors.As(err, &busy), schedule.IsRetryable(err):
		return failure{http.StatusServiceUnavailable, "busy", "somebody else is at it, try again", ""}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return failure{http.StatusServiceUnavailable, "unavailable", "the database did not answer in time, try again", ""}
	}
	return failure{http.StatusInternalServerError, "internal", "something is wrong here", ""}
}

// fields are the destinations of a call's texts, by name.
type fields map[string]*string

// decode reads a JSON object of texts strictly, and names the wrong field. Names must match exactly, which encoding/json
// does not require of a struct's fields.
func decode(body []byte, into fields) error {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(body, &in); err != nil || in == nil {
		return invalid("body", "must be one JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		text, known := into[name]
		if !known {
			return invalid(cmp.Or(name, `""`), "is not a field of this call")
		}
		if err := json.Unmarshal(in[name], text); err != nil {
			return invalid(name, "must be a string")
		}
	}
	return nil
}

// decodeNothing accepts no body, or an object without fields.
func decodeNothing(body []byte) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	return decode(body, nil)
}
