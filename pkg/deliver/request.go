package deliver

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/duetime/duetime/pkg/task"
)

// request makes the request for a task: the payload, signed, with the attributes of CloudEvents in binary mode.
func (p *Pusher) request(ctx context.Context, t task.Task, e *endpoint) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url.String(), bytes.NewReader(t.Payload))
	if err != nil {
		return nil, err
	}
	id, now := t.ID.String(), time.Now()
	for name, value := range map[string]string{
		"Content-Type":      "application/json",
		"User-Agent":        "duetime",
		"Webhook-Id":        id,
		"Webhook-Timestamp": strconv.FormatInt(now.Unix(), 10),
		"Webhook-Signature": e.signer.Sign(id, now, t.Payload),
		"Ce-Specversion":    "1.0",
		"Ce-Id":             id,
		"Ce-Source":         p.source,
		"Ce-Type":           t.Kind,
		"Ce-Time":           t.DueAt.UTC().Format(time.RFC3339Nano),
		"Ce-Owner":          attribute(t.Owner),
	} {
		req.Header.Set(name, value)
	}
	if t.Subject != "" {
		req.Header.Set("Ce-Subject", attribute(t.Subject))
	}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header))
	// An empty value is not sent. It says that the request may be repeated, if the endpoint closed an idle connection just as the
	// request was written: the id is the same.
	req.Header["Idempotency-Key"] = []string{}
	return req, nil
}

// attribute encodes a text for a header as CloudEvents does: all but printable ASCII, and blanks, quotes and percent signs, by
// their UTF-8 bytes.
func attribute(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f || c == '"' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}
