package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Retentions are how long rows are kept, by kind.
type Retentions map[string]time.Duration

// fromYAML reads the kinds of the file.
func (Retentions) fromYAML(v any) (any, error) {
	if v == nil { // all of its kinds are comments
		return Retentions{}, nil
	}
	section, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("must be a section of kinds and durations, such as {session.ping: 1h}, not %s", yamlType(v))
	}
	r := make(Retentions, len(section))
	for _, kind := range slices.Sorted(maps.Keys(section)) {
		d, err := durationOf(section[kind])
		if err != nil {
			return nil, fmt.Errorf("%s %w", kind, err)
		}
		r[kind] = d
	}
	return r, nil
}

// String returns the section as the file has it.
func (r Retentions) String() string {
	items := make([]string, 0, len(r))
	for _, kind := range slices.Sorted(maps.Keys(r)) {
		items = append(items, kind+": "+formatDuration(r[kind]))
	}
	return "{" + strings.Join(items, ", ") + "}"
}

// RetentionOf returns how long done and cancelled rows of the kind are kept.
func (d Daemon) RetentionOf(kind string) time.Duration {
	if r, named := d.RetentionByKind[kind]; named {
		return r
	}
	return d.Retention
}

// ShortestRetention returns how long each row is kept at least.
func (d Daemon) ShortestRetention() time.Duration {
	shortest := d.Retention
	for _, r := range d.RetentionByKind {
		shortest = min(shortest, r)
	}
	return shortest
}

func (d Daemon) checkRetention(p *Problems) {
	p.CheckDuration("daemon.retention", d.Retention, time.Second, tenYears)
	for _, kind := range slices.Sorted(maps.Keys(d.RetentionByKind)) {
		key := "daemon.retention_by_kind: " + kind
		if err := (task.KindInfo{Name: kind, Queue: "default", MaxAttempts: 1}).Check(); err != nil {
			p.Addf("%s: %v", key, err)
		}
		p.CheckDuration(key, d.RetentionByKind[kind], time.Minute, tenYears)
	}
}
