package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/duetime/duetime/pkg/task"
)

// queuesKey is the list of queues. An item is a name, or a section with a name and limits.
const queuesKey = "queues"

// queueList reads the list of queues. Limits has those of the queues that have any.
func queueList(v any) (names []string, limits map[string]task.Limit, err error) {
	items, ok := v.([]any)
	if !ok {
		return nil, nil, fmt.Errorf("must be a list, not %s", yamlType(v))
	}
	limits = map[string]task.Limit{}
	for i, item := range items {
		name, limit, err := queueItem(item)
		if err != nil {
			return nil, nil, fmt.Errorf("item %d %w", i+1, err)
		}
		names = append(names, name)
		if limit != (task.Limit{}) {
			limits[name] = limit
		}
	}
	return names, limits, nil
}

func queueItem(item any) (name string, l task.Limit, err error) {
	if name, ok := item.(string); ok {
		return name, l, nil
	}
	section, ok := item.(map[string]any)
	if !ok {
		return "", l, fmt.Errorf("must be a text (in quotes), or {name, rate, concurrency, owner_rate}, not %s", yamlType(item))
	}
	for _, key := range slices.Sorted(maps.Keys(section)) {
		switch value := section[key]; key {
		case "name":
			if name, ok = value.(string); !ok {
				return "", l, fmt.Errorf("has a name that must be a text (in quotes), not %s", yamlType(value))
			}
		case "rate":
			if l.Rate, err = rateOf(key, value); err != nil {
				return "", l, err
			}
		case "owner_rate":
			if l.OwnerRate, err = rateOf(key, value); err != nil {
				return "", l, err
			}
		case "concurrency":
			if l.Concurrency, ok = value.(int); !ok || l.Concurrency < 1 {
				return "", l, fmt.Errorf("has a concurrency that must be a whole number, 1 to %d", task.MaxConcurrency)
			}
		default:
			return "", l, fmt.Errorf("has the unknown key %q: a queue has name, rate, concurrency and owner_rate", key)
		}
	}
	return name, l, nil
}

func rateOf(key string, value any) (task.Rate, error) {
	text, ok := value.(string)
	if !ok {
		return task.Rate{}, fmt.Errorf("has a %s that must be a text such as 200/s, 50/m or 10/h, not %s", key, yamlType(value))
	}
	rate, err := task.ParseRate(text)
	if err != nil {
		err = fmt.Errorf("has a wrong %s: %w", key, err)
	}
	return rate, err
}

// checkLimits checks the limits of queues, which a program may have set itself.
func (c Config) checkLimits(p *Problems) {
	for _, queue := range slices.Sorted(maps.Keys(c.Limits)) {
		if !slices.Contains(c.Queues, queue) {
			p.Addf("queues: %q has a limit, but is not among them", queue)
		}
		if err := c.Limits[queue].Check(); err != nil {
			p.Addf("queues: %q: %v", queue, err)
		}
	}
}

// queuesText returns the list of queues as the file has it.
func (c Config) queuesText() string {
	items := make([]string, len(c.Queues))
	for i, queue := range c.Queues {
		items[i] = queue
		l := c.Limits[queue]
		if l == (task.Limit{}) {
			continue
		}
		items[i] = "{name: " + queue
		if l.Rate != (task.Rate{}) {
			items[i] += ", rate: " + l.Rate.String()
		}
		if l.Concurrency > 0 {
			items[i] += ", concurrency: " + strconv.Itoa(l.Concurrency)
		}
		if l.OwnerRate != (task.Rate{}) {
			items[i] += ", owner_rate: " + l.OwnerRate.String()
		}
		items[i] += "}"
	}
	return "[" + strings.Join(items, ", ") + "]"
}
