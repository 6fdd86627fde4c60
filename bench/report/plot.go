package report

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The plots that curves belong to.
const (
	PlotLag        = "lag"
	PlotBurst      = "burst"
	PlotGrowthRate = "growth-rate"
	PlotGrowthLag  = "growth-lag"
)

// drawing is how one plot looks. All have a logarithmic x axis.
type drawing struct {
	name, title, x, y, file string
	leastX                  float64 // what is less is drawn there: a logarithmic axis has no zero
}

var drawings = []drawing{
	{PlotLag, "Firing lag at 500/s, 100k pending", "handler start − due, ms", "% of the tasks so fast", "lag.svg", 0.05},
	{PlotBurst, "Burst of 50k with an effect each", "s after the due time", "effects committed", "burst.svg", 0.05},
	{PlotGrowthRate, "Burst rate over what is pending", "tasks pending", "tasks/s", "growth-rate.svg", 1},
	{PlotGrowthLag, "Lag at 500/s over what is pending", "tasks pending", "handler start − due, p99, ms", "growth-lag.svg", 1},
}

const (
	width, height = 24 * vg.Centimeter, 11 * vg.Centimeter
	legendWidth   = 8 * vg.Centimeter
)

// draw makes an SVG in dir of each plot that has a curve.
func (r *Results) draw(dir string) ([]drawing, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("draw: %w", err)
	}
	var drawn []drawing
	for _, d := range drawings {
		p, legend, err := r.plot(d)
		if err != nil {
			return drawn, fmt.Errorf("draw %s: %w", d.file, err)
		}
		if p == nil {
			continue
		}
		if err := save(p, legend, filepath.Join(dir, d.file)); err != nil {
			return drawn, fmt.Errorf("draw %s: %w", d.file, err)
		}
		drawn = append(drawn, d)
	}
	return drawn, nil
}

// save puts the legend beside the plot, where no line goes.
func save(p *plot.Plot, legend plot.Legend, path string) error {
	svg := vgsvg.New(width, height)
	whole := draw.New(svg)
	whole.FillPolygon(color.White, []vg.Point{{}, {Y: height}, {X: width, Y: height}, {X: width}}) // a page may be dark
	p.Draw(draw.Crop(whole, 0, -legendWidth, 0, 0))
	legend.Draw(draw.Crop(whole, width-legendWidth+vg.Centimeter/2, 0, 0, -vg.Centimeter))
	file, err := os.Create(path) //nolint:gosec // a file of the docs
	if err != nil {
		return err
	}
	if _, err := svg.WriteTo(file); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// plot has the curves of one drawing, or is nil if there is none.
func (r *Results) plot(d drawing) (*plot.Plot, plot.Legend, error) {
	p, legend := plot.New(), plot.NewLegend()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = d.title, d.x, d.y
	p.Y.Min = 0
	p.Add(plotter.NewGrid())
	legend.Top, legend.Left = true, true
	some := false
	for _, c := range r.Curves {
		if c.Plot != d.name || len(c.Points) == 0 {
			continue
		}
		line, err := plotter.NewLine(points(c.Points, d.leastX))
		if err != nil {
			return nil, legend, fmt.Errorf("%s: %w", c.Row, err)
		}
		const colors = 7 // of plotutil's; then other dashes
		line.Color, line.Dashes, line.Width = plotutil.Color(r.place(c.Row)), plotutil.Dashes(r.place(c.Row)/colors), vg.Points(1)
		if c.Row == Duetime {
			line.Color, line.Dashes, line.Width = color.Black, nil, vg.Points(2.5)
		}
		p.Add(line)
		legend.Add(strings.Trim(r.title(c.Row), "*")+early(c.Points), line)
		some = true
	}
	if !some {
		return nil, legend, nil
	}
	p.X.Max = math.Max(p.X.Max, 10*p.X.Min) // one decade at least, or there is no tick
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, named{plot.LogTicks{}}
	p.Y.Tick.Marker = named{plot.DefaultTicks{}}
	return p, legend, nil
}

// early says how much of a distribution lies before the due time, where the axis has no place for it.
func early(of []Point) string {
	share := 0.0
	for _, p := range of {
		if p.X < 0 {
			share = p.Y
		}
	}
	if share < 1 {
		return ""
	}
	return fmt.Sprintf(" (%.0f %% early)", share)
}

func points(of []Point, leastX float64) plotter.XYs {
	xys := make(plotter.XYs, len(of))
	for i, p := range of {
		xys[i] = plotter.XY{X: math.Max(p.X, leastX), Y: p.Y}
	}
	return xys
}

// named writes ticks as people say them: 10k, 1M.
type named struct{ plot.Ticker }

// Ticks are the other ticker's.
func (n named) Ticks(least, most float64) []plot.Tick {
	ticks := n.Ticker.Ticks(least, most)
	for i, t := range ticks {
		if !t.IsMinor() {
			ticks[i].Label = short(t.Value)
		}
	}
	return ticks
}

func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%gM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%gk", v/1e3)
	}
	return fmt.Sprintf("%.4g", v)
}
