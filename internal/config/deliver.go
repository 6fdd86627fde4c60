package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/webhook"
	"github.com/duetime/duetime/pkg/task"
)

// Deliver is the section of the command worker that says which kinds it delivers by HTTP.
type Deliver struct {
	Allow []string  `key:"allow" doc:"names, addresses and CIDRs of endpoints that are not on the public internet, such as 10.0.0.0/8; a name vouches for whatever address it has"`
	Kinds Endpoints `key:"kinds" doc:"kinds that the worker delivers by HTTP, in the file only: {order.expire: {url: https://shop.example/hook, queue: push, secrets_file: FILE, timeout: 5s}}. Instead of secrets_file it may have secrets, or secrets_env, the name of a variable; several secrets are parted by spaces or lines"`
}

// Endpoints are the endpoints of kinds, by the kinds' names.
type Endpoints []Endpoint

// Endpoint is where the tasks of a kind go.
type Endpoint struct {
	Kind    string
	Queue   string
	URL     string
	Timeout time.Duration

	// One of them has the secrets.
	Secrets     Secret
	SecretsFile string
	SecretsEnv  string
}

const (
	// HandlerMargin is how much the timeout of a delivered kind's handler is above that of its endpoint.
	HandlerMargin = time.Second

	kindsKey       = "deliver.kinds"
	defaultTimeout = 5 * time.Second // of an endpoint
	usualDrain     = 8 * time.Second // that worker.drain means by 0s
)

// DefaultDeliver returns a section without kinds.
func DefaultDeliver() *Deliver { return &Deliver{Allow: []string{}, Kinds: Endpoints{}} }

// Name is the section's name.
func (*Deliver) Name() string { return "deliver" }

// Validate adds a problem for each value out of its limits.
func (d *Deliver) Validate(p *Problems) {
	guard, err := webhook.NewGuard(d.Allow)
	if err != nil {
		p.Addf("deliver.allow: %v", err)
		return
	}
	for _, e := range d.Kinds {
		e.validate(guard, p)
	}
}

func (e Endpoint) validate(guard *webhook.Guard, p *Problems) {
	at := kindsKey + ": " + e.Kind
	if err := (task.KindInfo{Name: e.Kind, Queue: e.Queue, MaxAttempts: 1}).Check(); err != nil {
		p.Addf("%s: %v", at, err)
	}
	if _, err := guard.Parse(e.URL); err != nil {
		p.Addf("%s: url %v", at, err)
	}
	given := 0
	for _, text := range []string{string(e.Secrets), e.SecretsFile, e.SecretsEnv} {
		if text != "" {
			given++
		}
	}
	if given != 1 {
		p.Addf("%s: needs one of secrets, secrets_file and secrets_env, it has %d", at, given)
	}
	if e.Secrets != "" {
		if _, err := webhook.NewSigner(strings.Fields(string(e.Secrets))); err != nil {
			p.Addf("%s: %v", at, err)
		}
	}
	p.CheckDuration(at+": timeout", e.Timeout, task.MinTimeout, task.MaxTimeout)
}

// ValidateWith refuses timeouts that would let a stop cut off requests: the
// endpoint's timeout must end before its handler's, and this before the worker's drain.
func (d *Deliver) ValidateWith(c Config, p *Problems) {
	longest, key := c.Worker.HandlerTimeout, "worker.handler_timeout"
	if drain := cmp.Or(c.Worker.Drain, usualDrain); drain < longest {
		longest, key = drain, "worker.drain (0s means 8s)"
	}
	for _, e := range d.Kinds {
		if limit := longest - HandlerMargin; e.Timeout > limit {
			p.Addf("%s: %s: timeout %s is above the limit %s, which is %s below %s", kindsKey, e.Kind,
				formatDuration(e.Timeout), formatDuration(limit), formatDuration(HandlerMargin), key)
		}
	}
}

// Secret returns the endpoint's secrets, from wherever they are.
func (e Endpoint) Secret() ([]string, error) {
	at := kindsKey + ": " + e.Kind + ": secrets"
	if e.SecretsEnv != "" {
		text := os.Getenv(e.SecretsEnv)
		if text == "" {
			return nil, fmt.Errorf("%s_env: the environment has no %s", at, e.SecretsEnv)
		}
		return strings.Fields(text), nil
	}
	text, err := secret{at, e.Secrets, e.SecretsFile}.read()
	return strings.Fields(string(text)), err
}

// fromYAML reads the kinds of the file.
func (Endpoints) fromYAML(v any) (any, error) {
	if v == nil { // all of its kinds are comments
		return Endpoints{}, nil
	}
	kinds, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("must be a section of kinds, not %s", yamlType(v))
	}
	all := make(Endpoints, 0, len(kinds))
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		values, ok := kinds[kind].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s must be a section such as {url, queue, secrets_file}, not %s", kind, yamlType(kinds[kind]))
		}
		e := Endpoint{Kind: kind, Timeout: defaultTimeout}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if err := e.set(key, values[key]); err != nil {
				return nil, fmt.Errorf("%s: %w", kind, err)
			}
		}
		if e.Queue == "" {
			return nil, fmt.Errorf("%s: needs a queue: that in which its tasks are scheduled, best one of the endpoint's own", kind)
		}
		all = append(all, e)
	}
	return all, nil
}

// set sets the value of a key.
func (e *Endpoint) set(key string, v any) error {
	var timeout string
	to, known := map[string]*string{
		"url": &e.URL, "queue": &e.Queue, "timeout": &timeout,
		"secrets": (*string)(&e.Secrets), "secrets_file": &e.SecretsFile, "secrets_env": &e.SecretsEnv,
	}[key]
	switch {
	case key == "rate" || key == "concurrency":
		return fmt.Errorf("has no %s of its own: it is the queue's, as in queues: [{name: push, rate: 200/s}]", key)
	case !known:
		return fmt.Errorf("has the unknown key %q: an endpoint has url, queue, secrets, secrets_file, secrets_env and timeout", key)
	}
	text, ok := v.(string)
	if list, several := v.([]any); several && key == "secrets" {
		texts, err := textList(list)
		if err != nil {
			return fmt.Errorf("secrets: %w", err)
		}
		text, ok = strings.Join(texts, " "), true
	}
	if !ok {
		return fmt.Errorf("%s must be a text (in quotes), not %s", key, yamlType(v))
	}
	if *to = text; key != "timeout" {
		return nil
	}
	d, err := parseDuration(text)
	if err != nil {
		return fmt.Errorf("timeout %w", err)
	}
	e.Timeout = d
	return nil
}

// shownURL is the URL up to its path, which may hold a token.
func (e Endpoint) shownURL() string {
	u, err := url.Parse(e.URL)
	if err != nil || u.Host == "" {
		return mask
	}
	return u.Scheme + "://" + u.Host + "/" + mask
}

// String shows the kinds as the file has them, without their secrets and what follows the host of a URL.
func (all Endpoints) String() string {
	items := make([]string, len(all))
	for i, e := range all {
		items[i] = fmt.Sprintf("%s: {url: %s, queue: %s, timeout: %s", e.Kind, e.shownURL(), e.Queue, formatDuration(e.Timeout))
		for _, has := range []struct{ key, value string }{
			{"secrets", e.Secrets.String()}, {"secrets_file", e.SecretsFile}, {"secrets_env", e.SecretsEnv},
		} {
			if has.value != "" {
				items[i] += ", " + has.key + ": " + has.value
			}
		}
		items[i] += "}"
	}
	return "{" + strings.Join(items, ", ") + "}"
}
