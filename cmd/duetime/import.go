package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/imports"
	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// importPassword is the environment variable with the password of --from.
const importPassword = "DUETIME_IMPORT_PASSWORD" //nolint:gosec // The name of a variable.

const importHelp = `

It reads the source and never changes it. It can be interrupted and run again: a member makes one task, and a member whose
task exists, in whatever state, is left out. What can't be read is listed; the exit code is then 1. docs/IMPORTING.md says
how to move while services and workers run. Look at --dry-run first.`

func (t *tool) importing() *cobra.Command {
	cmd := &cobra.Command{
		Use: "import", Short: "Make tasks of what waits in another system's Redis", Args: cobra.NoArgs, RunE: needsCommand,
	}
	cmd.AddCommand(t.importZSet(), t.importAsynq())
	return cmd
}

// importFlags are the flags of all sources.
type importFlags struct {
	from, label         string
	ownerFrom, to       string
	maxAttempts         int
	dueAfter, dueBefore string
	overdue             bool
	dryRun              bool
}

func (t *tool) addImportFlags(cmd *cobra.Command, f *importFlags) {
	cmd.Flags().StringVar(&f.from, "from", "", "Redis of the source, redis://[user@]host:port[/database] or rediss://…, its password in "+importPassword+"; without it, the configuration's Redis")
	cmd.Flags().StringVar(&f.label, "source", "", "a name that tells this server's members from those of another server with the same key; part of the tasks' ids")
	cmd.Flags().StringVar(&f.ownerFrom, "owner-from", "", "the payload's top-level field that names the owner; without it, each task's owner is the member's id")
	cmd.Flags().StringVar(&f.to, "to", "default", "the tasks' queue, one of the configuration's")
	cmd.Flags().IntVar(&f.maxAttempts, "max-attempts", task.NewKind[int]("default").Info().MaxAttempts, "failed attempts after which a task is dead")
	cmd.Flags().StringVar(&f.dueAfter, "due-after", "", "only members that are due at this time or after it: "+timeForms)
	cmd.Flags().StringVar(&f.dueBefore, "due-before", "", "only members that are due before this time")
	cmd.Flags().BoolVar(&f.overdue, "overdue", false, "also members that were due longer ago than daemon.retention, whose task may have run and been purged")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, fmt.Sprintf("change nothing: count, and show the first %d tasks", imports.FirstTasks))
	t.jsonFlag(cmd, jsonObject)
	complete(cmd, "to", t.queues)
}

func (t *tool) importZSet() *cobra.Command {
	var (
		f                    importFlags
		key, kind            string
		memberIs, scoreIs    string
		source               imports.ZSet
		forms                = map[string]imports.Form{"": imports.FormGuessed, "json": imports.FormJSON, "id": imports.FormID}
		units                = map[string]imports.Unit{"": imports.UnitGuessed, "s": imports.UnitSeconds, "ms": imports.UnitMilliseconds}
		formGiven, unitGiven bool
	)
	cmd := &cobra.Command{
		Use: "zset --key KEY --kind KIND", Short: "Import a sorted set whose scores are due times", Args: cobra.NoArgs,
		Long: "Make a task of each member of a sorted set whose scores are due times." + importHelp,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if key == "" || kind == "" {
				return errors.New("give both --key and --kind")
			}
			source.Key = key
			if source.Form, formGiven = forms[memberIs]; !formGiven {
				return fmt.Errorf("--member-is: %q is neither json nor id", memberIs)
			}
			if source.Unit, unitGiven = units[scoreIs]; !unitGiven {
				return fmt.Errorf("--score-is: %q is neither s nor ms", scoreIs)
			}
			if source.Kind, err = imports.NewKind(kind, f.to, f.maxAttempts); err != nil {
				return err
			}
			return t.runImport(cmd.Context(), f, &source)
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "the set's key")
	cmd.Flags().StringVar(&kind, "kind", "", "the tasks' kind")
	cmd.Flags().StringVar(&memberIs, "member-is", "", "json: the payload; id: a text, put into {\"id\": …}; without it, only JSON objects and lists are read")
	cmd.Flags().StringVar(&scoreIs, "score-is", "", "s or ms since 1970; without it, the scores must show which")
	t.addImportFlags(cmd, &f)
	complete(cmd, "kind", t.kinds)
	complete(cmd, "member-is", fixed("json", "id"))
	complete(cmd, "score-is", fixed("s", "ms"))
	return cmd
}

func (t *tool) importAsynq() *cobra.Command {
	var (
		f     importFlags
		queue string
		pairs []string
	)
	cmd := &cobra.Command{
		Use: "asynq --queue QUEUE --kind-map TYPE=KIND[@QUEUE],...", Short: "Import the scheduled set of a queue of hibiken/asynq", Args: cobra.NoArgs,
		Long: "Make a task of each scheduled task of a queue of hibiken/asynq (v0.26). Payloads must be JSON. Its sets of pending, active,\n" +
			"retried and archived tasks are not read." + importHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if queue == "" || len(pairs) == 0 {
				return errors.New("give both --queue and --kind-map")
			}
			types, err := f.kinds(pairs)
			if err != nil {
				return fmt.Errorf("--kind-map: %w", err)
			}
			return t.runImport(cmd.Context(), f, &imports.Asynq{Queue: queue, Types: types})
		},
	}
	cmd.Flags().StringVar(&queue, "queue", "", "asynq's queue")
	cmd.Flags().StringSliceVar(&pairs, "kind-map", nil, "the kind of each of asynq's types, and its queue if it is not that of --to; may be repeated")
	t.addImportFlags(cmd, &f)
	return cmd
}

// kinds reads TYPE=KIND[@QUEUE]. A type may hold an equals sign, a kind never does.
func (f importFlags) kinds(pairs []string) (map[string]imports.Kind, error) {
	types := map[string]imports.Kind{}
	for _, pair := range pairs {
		equals := strings.LastIndexByte(pair, '=')
		if equals < 0 {
			return nil, fmt.Errorf("%q is not TYPE=KIND[@QUEUE]", pair)
		}
		name, queue, own := strings.Cut(pair[equals+1:], "@")
		if !own {
			queue = f.to
		}
		kind, err := imports.NewKind(name, queue, f.maxAttempts)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", pair, err)
		}
		if _, twice := types[pair[:equals]]; twice {
			return nil, fmt.Errorf("type %q is given twice", pair[:equals])
		}
		types[pair[:equals]] = kind
	}
	return types, nil
}

// bounds reads the times. now is this machine's clock, in the operator's zone.
func (f importFlags) bounds(now time.Time) (after, before time.Time, err error) {
	filter, err := filterFlags{dueAfter: f.dueAfter, dueBefore: f.dueBefore}.filter(now)
	return filter.DueAfter, filter.DueBefore, err
}

// server returns a client of the source's Redis, the number of its database, and what closes it.
func (f importFlags) server(p *parts.Parts) (from redis.Cmdable, database int, end func(), err error) {
	if f.from == "" {
		return p.Index.Client(), 0, func() {}, nil
	}
	client, database, err := imports.Dial(f.from, os.Getenv(importPassword))
	if err != nil {
		return nil, 0, nil, fmt.Errorf("--from: %w (the password goes into %s)", err, importPassword)
	}
	return client, database, func() { _ = client.Close() }, nil
}

// imported is the answer of an import.
type imported struct {
	DryRun     bool                 `json:"dry_run"`
	Imported   int                  `json:"imported"` // of a dry run: that would be
	Present    int                  `json:"present"`
	Left       int                  `json:"left"`
	Unreadable int                  `json:"unreadable"`
	Members    []imports.Unreadable `json:"unreadable_members"`
	First      []importedTask       `json:"first,omitempty"` // of a dry run
}

// importedTask is a task that a dry run would make.
type importedTask struct {
	ID      task.ID `json:"task_id"`
	Kind    string  `json:"kind"`
	Queue   string  `json:"queue"`
	Owner   string  `json:"owner"`
	DueAtMs int64   `json:"due_at_ms"`
	Payload string  `json:"payload"`
}

func (t *tool) runImport(ctx context.Context, f importFlags, source imports.Source) error {
	after, before, err := f.bounds(t.now())
	if err != nil {
		return err
	}
	return t.withParts(ctx, func(p *parts.Parts, c *console.Console) error {
		for _, kind := range source.Kinds() {
			if err := c.CheckQueue(ctx, kind.Info().Queue); err != nil {
				return fmt.Errorf("kind %s: %w", kind.Name(), err)
			}
		}
		from, database, end, err := f.server(p)
		if err != nil {
			return err
		}
		defer end()
		if !f.dryRun {
			if err := t.confirm(ctx, fmt.Sprintf("make tasks of the members of %s?", source)); err != nil {
				return err
			}
		}
		answer := imported{DryRun: f.dryRun, Members: []imports.Unreadable{}}
		bar := &progressLater{tool: t, what: "read " + source.String()}
		sum, err := imports.Run(ctx, imports.Config{
			Label: f.label, Database: database, OwnerFrom: f.ownerFrom, DueAfter: after, DueBefore: before,
			Retention: p.Config.Daemon.RetentionOf, Overdue: f.overdue, DryRun: f.dryRun, Progress: bar.set,
			Unreadable: func(u imports.Unreadable) {
				if t.json {
					answer.Members = append(answer.Members, u)
					return
				}
				_, _ = fmt.Fprintf(t.out, "unreadable: %s: %s\n", printable(u.Member), printable(u.Reason))
			},
		}, from, source, c)
		bar.end()
		return t.endImport(f, answer.with(sum), err)
	})
}

func (a imported) with(sum imports.Result) imported {
	a.Imported, a.Present, a.Left, a.Unreadable = sum.Imported, sum.Present, sum.Left, sum.Unreadable
	for _, row := range sum.First {
		a.First = append(a.First, importedTask{row.ID, row.Kind, row.Queue, row.Owner, row.DueAt.UnixMilli(), string(row.Payload)})
	}
	return a
}

// endImport writes the answer, also that of an import that ended early. The error decides the exit code.
func (t *tool) endImport(f importFlags, a imported, err error) error {
	switch {
	case errors.Is(err, imports.ErrUnit):
		return fmt.Errorf("%w; give --score-is", err)
	case err != nil && a.Imported > 0 && !f.dryRun:
		return errors.Join(show(t, a, t.writeImported), fmt.Errorf("run this again to go on: %w", err))
	case err != nil:
		return err
	}
	if err := show(t, a, t.writeImported); err != nil {
		return err
	}
	if a.Unreadable > 0 {
		return fmt.Errorf("%d %s could not be imported", a.Unreadable, plural(a.Unreadable, "member"))
	}
	return nil
}

func (t *tool) writeImported(a imported) error {
	done := "imported"
	if a.DryRun {
		done = "would import"
	}
	lines := [][]string{
		{done, thousands(a.Imported)},
		{"there before", thousands(a.Present)},
		{"left meanwhile", thousands(a.Left)},
		{"unreadable", thousands(a.Unreadable)},
	}
	if err := writeTable(t.out, lines); err != nil || len(a.First) == 0 {
		return err
	}
	_, _ = fmt.Fprintln(t.out)
	lines = [][]string{{"TASK", "KIND", "QUEUE", "OWNER", "DUE", "PAYLOAD"}}
	for _, v := range a.First {
		lines = append(lines, []string{v.ID.String(), v.Kind, v.Queue, v.Owner, t.stamped(v.DueAtMs), cut(v.Payload, payloadWidth)})
	}
	return writeTable(t.out, lines)
}

const payloadWidth = 60 // columns of a payload in a table

// progressLater is a progress whose total is known later.
type progressLater struct {
	tool *tool
	what string
	bar  *progress
}

func (p *progressLater) set(read, total int) {
	if p.bar == nil {
		p.bar = p.tool.progress(p.what, total)
	}
	p.bar.set(read)
}

func (p *progressLater) end() {
	if p.bar != nil {
		p.bar.end()
	}
}
