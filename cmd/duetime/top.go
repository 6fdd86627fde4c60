package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/store"
)

const (
	topWindow = 10 * time.Second // over which rates and lag are taken
	topEvery  = 2 * time.Second  // between frames, at least
	topShare  = 5                // how many times as long as it read a frame's reader rests: a large table is not read all day
	topWithin = 15 * time.Second // for one frame
	topWidth  = 80               // of a frame that goes to no terminal
	topHeight = 24
)

func (t *tool) top() *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use: "top", Short: "Watch the pipeline: rates, lag, leaders, backlog", Args: cobra.NoArgs,
		Long: `Watch the pipeline: rates, lag, leaders, backlog, as MySQL and Redis tell. It asks no process of the pipeline. Keys: q ends.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.with(cmd.Context(), func(p *parts.Parts) error {
				if once {
					return t.topOnce(cmd.Context(), p)
				}
				return t.topLive(cmd.Context(), p)
			})
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "write one frame and end")
	return cmd
}

// frame is all that one picture shows.
type frame struct {
	store.Live
	namespace string
	queues    []string // of the configuration
	shards    []index.Shard
	took      time.Duration
	rest      time.Duration // until the next; 0 for the only one
	err       error         // why the figures are old
	fired     []int64       // of this frame and those before it
}

func readFrame(ctx context.Context, p *parts.Parts) (frame, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, topWithin)
	defer cancel()
	f := frame{namespace: p.Config.Namespace, queues: p.Config.Queues}
	var err error
	if f.Live, err = p.Store.Live(ctx, topWindow); err != nil {
		return f, err
	}
	if f.shards, err = allShards(ctx, p); err != nil {
		return f, err
	}
	f.took = time.Since(began)
	return f, nil
}

func (t *tool) topOnce(ctx context.Context, p *parts.Parts) error {
	f, err := readFrame(ctx, p)
	if err != nil {
		return err
	}
	width, terminal := t.width()
	if !terminal {
		width = topWidth
	}
	for line := range strings.SplitSeq(f.draw(width, topHeight, plain), "\n") {
		if _, err := fmt.Fprintln(t.out, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

func (t *tool) topLive(ctx context.Context, p *parts.Parts) error {
	if !isTerminal(t.out) || !isTerminal(t.in) {
		return errors.New("top needs a terminal; --once writes one frame anywhere")
	}
	// The first frame outside: a server that is away must be told by the exit code, not on a screen.
	f, err := readFrame(ctx, p)
	if err != nil {
		return err
	}
	m := screen{ctx: ctx, parts: p, frame: f, width: topWidth, height: topHeight}
	m.frame.fired = []int64{f.Fired}
	m.frame.rest = restAfter(f.took)
	_, err = tea.NewProgram(m, tea.WithContext(ctx), tea.WithoutSignalHandler(),
		tea.WithInput(t.in), tea.WithOutput(t.out)).Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return nil //nolint:nilerr // stopped by a signal
	}
	return err
}

// screen is the live view as bubbletea runs it.
type screen struct {
	ctx           context.Context //nolint:containedctx // Of the program, which gives none to its commands.
	parts         *parts.Parts
	frame         frame
	width, height int
}

type (
	due  struct{} // the next frame is to be read
	read struct {
		frame frame
		err   error
	}
)

// mostSamples is how far back the small chart goes.
const mostSamples = 30

func restAfter(took time.Duration) time.Duration {
	return max(topEvery, topShare*took).Round(time.Second)
}

// Init waits for the time of the second frame.
func (s screen) Init() tea.Cmd { return s.wait() }

func (s screen) wait() tea.Cmd {
	return tea.Tick(s.frame.rest, func(time.Time) tea.Msg { return due{} })
}

// Update takes one event.
func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return s, tea.Quit
		}
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case due:
		return s, func() tea.Msg {
			f, err := readFrame(s.ctx, s.parts)
			return read{f, err}
		}
	case read:
		if msg.err != nil {
			s.frame.err = msg.err // the last good figures stay
			return s, s.wait()
		}
		fired := append(s.frame.fired, msg.frame.Fired) //nolint:gocritic // the old frame is not used any more
		s.frame = msg.frame
		s.frame.fired = fired[max(0, len(fired)-mostSamples):]
		s.frame.rest = restAfter(msg.frame.took)
		return s, s.wait()
	}
	return s, nil
}

// View draws the frame.
func (s screen) View() tea.View {
	v := tea.NewView(s.frame.draw(s.width, s.height, coloured))
	v.AltScreen = true
	return v
}
