package main

import (
	"io"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/consoleweb"
	"github.com/duetime/duetime/pkg/schedule"
)

// inLibrary says of each command by which calls a service in Go does the same. docs/GUIDE.md has the same table.
var inLibrary = map[string][]any{
	"task get":          {(*console.Console).Task, (*schedule.Client).Get},
	"task list":         {(*console.Console).List},
	"task cancel":       {(*console.Console).Cancel},
	"task reschedule":   {(*console.Console).Reschedule, (*console.Console).Shift},
	"task retry":        {(*console.Console).Retry},
	"task requeue":      {(*console.Console).Requeue},
	"dead list":         {(*console.Console).List},
	"dead retry":        {(*console.Console).Retry, (*console.Console).PreviewBulk, (*console.Console).Bulk, (*console.Console).AwaitOperation},
	"dead discard":      {(*console.Console).Discard, (*console.Console).PreviewBulk, (*console.Console).Bulk, (*console.Console).AwaitOperation},
	"schedule list":     {(*console.Console).Recurrences},
	"schedule get":      {(*console.Console).Recurrence},
	"schedule pause":    {(*console.Console).PauseRecurrence},
	"schedule resume":   {(*console.Console).ResumeRecurrence},
	"schedule run":      {(*console.Console).RunRecurrence},
	"schedule stop":     {(*console.Console).StopRecurrence, (*console.Console).StopRecurrences},
	"group get":         {(*console.Console).Group},
	"group list":        {(*console.Console).Groups},
	"owner block":       {(*console.Console).BlockOwner},
	"owner unblock":     {(*console.Console).UnblockOwner},
	"owner blocked":     {(*console.Console).BlockedOwners},
	"bulk shift":        {(*console.Console).PreviewBulk, (*console.Console).Bulk},
	"bulk cancel":       {(*console.Console).PreviewBulk, (*console.Console).Bulk},
	"bulk requeue":      {(*console.Console).PreviewBulk, (*console.Console).Bulk},
	"bulk retry":        {(*console.Console).PreviewBulk, (*console.Console).Bulk},
	"bulk discard":      {(*console.Console).PreviewBulk, (*console.Console).Bulk},
	"bulk undo":         {(*console.Console).UndoOf, (*console.Console).PreviewBulk, (*console.Console).Bulk},
	"bulk list":         {(*console.Console).Operations},
	"bulk get":          {(*console.Console).Operation},
	"bulk pause":        {(*console.Console).PauseOperation},
	"bulk resume":       {(*console.Console).ResumeOperation},
	"bulk stop":         {(*console.Console).StopOperation},
	"pause":             {(*console.Console).Pause, (*console.Console).PauseUntil, (*console.Console).Pauses},
	"resume":            {(*console.Console).Resume, (*console.Console).EndPause},
	"queue list":        {(*console.Console).Queues},
	"queue add":         {(*console.Console).AddQueue},
	"queue retire":      {(*console.Console).RetireQueue},
	"queue rate":        {(*console.Console).SetLimits},
	"queue owner-rate":  {(*console.Console).SetLimits},
	"queue concurrency": {(*console.Console).SetLimits},
	"stats":             {(*console.Console).Stats},
	"top":               {(*console.Console).Frame},
	"verify":            {(*console.Console).Verify},
	"leader show":       {(*console.Console).Leaders},
	"leader resign":     {(*console.Console).Resign},
	"processes":         {(*console.Console).Processes},
	"why":               {(*console.Console).Why, console.Explanation.Task},
	"shard stat":        {(*console.Console).Shards, (*console.Console).ShardChange, (*console.Console).Horizon},
	"shard rebuild":     {(*console.Console).Rebuild},
	"shard grow":        {(*console.Console).ChangeShards, (*console.Console).PauseShards, (*console.Console).CancelShards},
	"shard shrink":      {(*console.Console).ChangeShards, (*console.Console).PauseShards, (*console.Console).CancelShards},
	"import zset":       {(*console.Console).Import},
	"import asynq":      {(*console.Console).Import},
	"config check":      {duetime.LoadConfig},
	"config check --servers": {
		(*duetime.Client).Ready, (*duetime.Client).AwaitIndex, (*duetime.Client).AwaitStream,
	},
	"console": {
		consoleweb.Handler, (*console.Console).Ahead, (*console.Console).LagOver, (*console.Console).DeadGroups, (*console.Console).Audit,
	},
}

// toolOnly says of the other commands why a service has no call for them.
var toolOnly = map[string]string{
	"migrate up":            "An administrator runs it, with rights on the schema that a service lacks.",
	"migrate status":        "It belongs to migrate up; Client.Ready waits for the schema that a service needs.",
	"migrate print":         "Its output is the SQL of the package migrations, for an administrator to read.",
	"config print":          "A service has the Config itself, whose secrets mask themselves when they are printed.",
	"healthcheck":           "It asks another process's admin port; a service answers its own by Client.Alive and OnJoined.",
	"version":               "A service reads its own build by debug.ReadBuildInfo; recur.TZVersion names its tz database.",
	"demo":                  "It plays a game with processes of its own.",
	"completion bash":       "It writes a script for a shell.",
	"completion fish":       "It writes a script for a shell.",
	"completion powershell": "It writes a script for a shell.",
	"completion zsh":        "It writes a script for a shell.",
}

// helpers are the console's calls that no command makes: they serve other calls, or a page.
var helpers = []any{
	(*console.Console).As, (*console.Console).WithKeys, (*console.Console).BlockedOwner, (*console.Console).CheckQueue,
	(*console.Console).Clock, (*console.Console).DeadAlike, (*console.Console).Deploys, (*console.Console).Drift, (*console.Console).Grace,
	(*console.Console).Labels, (*console.Console).ListBounded, (*console.Console).OnlyOperation, (*console.Console).QueueNames,
	(*console.Console).Rows, (*console.Console).RunRecurrenceOnce, (*console.Console).ShardCount, (*console.Console).Term,
}

// commands returns the paths of all commands that do something, without the tool's name.
func commands() []string {
	t := &tool{in: os.Stdin, out: io.Discard, errs: io.Discard}
	t.addGame()
	root := t.root()
	root.InitDefaultCompletionCmd() // as Execute does
	var paths []string
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if !cmd.HasSubCommands() {
			paths = append(paths, strings.TrimPrefix(cmd.CommandPath(), root.Name()+" "))
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return paths
}

// What the tool can do, a service can do by a call, or there is a reason why not.
func TestEachCommandHasACall(t *testing.T) {
	t.Parallel()
	all := commands()
	if len(all) < 40 {
		t.Fatalf("only these commands were found: %v", all)
	}
	for _, path := range all {
		_, call := inLibrary[path]
		reason, none := toolOnly[path]
		if call == none || none && !strings.HasSuffix(reason, ".") {
			t.Errorf("%s needs either calls or a sentence that says why there is none", path)
		}
	}
	for path := range inLibrary {
		if command, _, _ := strings.Cut(path, " --"); !slices.Contains(all, command) {
			t.Errorf("there is no command %s, which has calls", path)
		}
	}
	for path := range toolOnly {
		if !slices.Contains(all, path) {
			t.Errorf("there is no command %s, which has a reason", path)
		}
	}
}

// A call of the console that no command makes has to say so.
func TestEachCallHasACommand(t *testing.T) {
	t.Parallel()
	named := map[string]bool{}
	for _, calls := range inLibrary {
		for _, call := range calls {
			named[callName(call)] = true
		}
	}
	for _, call := range helpers {
		if named[callName(call)] {
			t.Errorf("%s has a command, and is no helper", callName(call))
		}
		named[callName(call)] = true
	}
	of := reflect.TypeFor[*console.Console]()
	for i := range of.NumMethod() {
		if name := "Console." + of.Method(i).Name; !named[name] {
			t.Errorf("no command has the call %s, and it is no helper", name)
		}
	}
}

// callName returns Console.List for (*console.Console).List, and LoadConfig for a function.
func callName(call any) string {
	name := runtime.FuncForPC(reflect.ValueOf(call).Pointer()).Name()
	_, name, _ = strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ".")
	return strings.NewReplacer("(*", "", ")", "").Replace(name)
}

// The guide's table names the same commands and calls.
func TestGuideNamesTheCalls(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/GUIDE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Inspect and repair from Go\n")
	section, _, _ = strings.Cut(section, "\n## ")
	written := map[string][]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for _, command := range quoted(cells[1]) {
			written[command] = quoted(cells[2])
		}
	}
	want := map[string][]string{}
	for command, calls := range inLibrary {
		for _, call := range calls {
			want[command] = append(want[command], callName(call))
		}
	}
	if d := cmp.Diff(want, written); d != "" {
		t.Errorf("docs/GUIDE.md, Inspect and repair from Go (-commands +page):\n%s", d)
	}
}

func quoted(cell string) (all []string) {
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
		all = append(all, m[1])
	}
	return all
}
