package pet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// failure is an error as the API answers it.
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

func (a *API) refuse(w http.ResponseWriter, f failure) { a.write(w, f.answer()) }

// fail answers an error.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	f := a.classify(err)
	if f.status >= http.StatusInternalServerError {
		a.logger.WarnContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "status", f.status, "err", err)
	}
	a.refuse(w, f)
}

func (a *API) classify(err error) failure {
	var f failure
	var refusal rule
	var field *task.FieldError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &refusal):
		return refusal.failure()
	case errors.As(err, &field):
		return invalid(field.Field, field.Problem)
	case errors.As(err, &tooLarge):
		return failure{http.StatusRequestEntityTooLarge, "too_large", "the body must be at most 65536 bytes", ""}
	case errors.Is(err, errNoPet):
		return failure{http.StatusNotFound, "not_found", "no such pet", ""}
	case errors.Is(err, errKeyReused):
		return failure{http.StatusUnprocessableEntity, "key_reused", err.Error(), "Idempotency-Key"}
	case errors.Is(err, schedule.ErrCommitUnknown):
		return failure{http.StatusServiceUnavailable, "unavailable", "whether the change was made is unknown: repeat it with the same Idempotency-Key", ""}
	case errors.Is(err, task.ErrRunning), errors.Is(err, errMoved), schedule.IsRetryable(err):
		return failure{http.StatusServiceUnavailable, "busy", "the pet is busy, try again", ""}
	case a.errs.Unavailable(err), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return failure{http.StatusServiceUnavailable, "unavailable", "the database is away, try again", ""}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return invalid("body", "must be complete")
	}
	return failure{http.StatusInternalServerError, "internal", "something is wrong here", ""}
}

// decode reads a JSON object strictly, and names the field that is wrong.
func decode(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			return invalid("body", "must be one JSON object")
		}
		return nil
	}
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) && wrongType.Field != "" {
		return invalid(wrongType.Field, "must be a "+wrongType.Type.String())
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return invalid(strings.Trim(name, `"`), "is not a field of this call")
	}
	return invalid("body", "must be one JSON object")
}

// decodeNothing accepts no body, or an object without fields.
func decodeNothing(body []byte) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	return decode(body, &struct{}{})
}
