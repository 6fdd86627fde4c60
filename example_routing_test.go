package duetime_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Databases are the clients of all schemas, each with a namespace of its own.
type Databases struct {
	clients []*duetime.Client
	home    func(ctx context.Context, owner string) (int, error) // reads the directory
}

// OpenDatabases opens a client for each configuration file.
func OpenDatabases(files []string, home func(context.Context, string) (int, error)) (*Databases, error) {
	d := &Databases{home: home}
	for _, file := range files {
		cfg, err := duetime.LoadConfig(file) // its own mysql.dsn and namespace; Redis, Kafka and ZooKeeper may be shared
		if err != nil {
			return nil, err
		}
		client, err := duetime.Open(cfg)
		if err != nil {
			return nil, err
		}
		d.clients = append(d.clients, client)
	}
	return d, nil
}

// Of returns the client of the owner's schema.
func (d *Databases) Of(ctx context.Context, owner string) (*duetime.Client, error) {
	n, err := d.home(ctx, owner)
	if err != nil {
		return nil, fmt.Errorf("home of %s: %w", owner, err)
	}
	return d.clients[n], nil
}

// Work runs the tasks of all schemas until ctx ends.
func (d *Databases) Work(ctx context.Context, handlers func() *worker.Mux) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, client := range d.clients {
		group.Go(func() error { return client.Work(ctx, handlers()) })
	}
	return group.Wait()
}

// Owners' tasks are spread over two databases.
func Example_databasesByOwner() {
	ctx := context.Background()
	directory := map[string]int{"ada": 0, "grace": 1} // in a service, a table that every process reads
	home := func(_ context.Context, owner string) (int, error) { return directory[owner], nil }
	databases, err := OpenDatabases([]string{"configs/east.yaml", "configs/west.yaml"}, home)
	check(err)

	client, err := databases.Of(ctx, "grace")
	check(err)
	end, err := client.Schedule(ctx, MealFinished.New("grace", Meal{Pet: 7}, task.In(4*time.Hour)))
	check(err)
	fmt.Println("the meal ends at", end.DueAt)
}

// TestScalingShowsThisCode compares the code of docs/SCALING.md with this file, line by line.
func TestScalingShowsThisCode(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("example_routing_test.go")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for line := range strings.Lines(string(file)) {
		have[strings.TrimSpace(line)] = true
	}
	page, err := os.ReadFile("docs/SCALING.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) == 0 {
		t.Error("docs/SCALING.md shows no code")
	}
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		for line := range strings.Lines(code) {
			if line = strings.TrimSpace(line); line != "" && !have[line] {
				t.Errorf("docs/SCALING.md shows a line that the example does not have: %s", line)
			}
		}
	}
}
