package prometheus_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m)) }

const (
	rulesFile     = "rules.yaml"
	dashboardFile = "../grafana/duetime.json"
	runbooks      = "../../docs/runbooks"
	runbookURL    = "https://github.com/duetime/duetime/blob/main/docs/runbooks/"
)

// query is an expression and where it stands.
type query struct{ where, expr string }

// ruleFile parses the rules as Prometheus does.
func ruleFile(t *testing.T) *rulefmt.RuleGroups {
	t.Helper()
	groups, errs := rulefmt.ParseFile(rulesFile, false, model.LegacyValidation)
	for _, err := range errs {
		t.Fatal(err)
	}
	return groups
}

// ruleQueries returns the expressions of the rules, and the names that they record.
func ruleQueries(t *testing.T) (queries []query, recorded map[string]bool) {
	t.Helper()
	recorded = map[string]bool{}
	for _, g := range ruleFile(t).Groups {
		for _, r := range g.Rules {
			queries = append(queries, query{"rule " + r.Alert + r.Record, r.Expr})
			if r.Record != "" {
				recorded[r.Record] = true
			}
		}
	}
	return queries, recorded
}

// panel is what we look at of a panel of the dashboard.
type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr string }
}

type dashboard struct {
	Panels      []panel
	Annotations struct {
		List []struct{ Name, Expr string }
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	pipelinetest.Must(t, err)
	var d dashboard
	pipelinetest.Must(t, json.Unmarshal(text, &d))
	return d
}

// dashboardQueries returns the expressions of the dashboard, with Grafana's own variables filled in.
func dashboardQueries(t *testing.T) []query {
	t.Helper()
	d := readDashboard(t)
	fill := strings.NewReplacer("$__rate_interval", "1m", "$__range", "1h", "$__interval", "15s")
	var queries []query
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries = append(queries, query{"panel " + p.Title, fill.Replace(target.Expr)})
		}
	}
	for _, a := range d.Annotations.List {
		queries = append(queries, query{"annotation " + a.Name, fill.Replace(a.Expr)})
	}
	return queries
}

// selectors returns the metrics that a query asks for.
func selectors(t *testing.T, q query) []*parser.VectorSelector {
	t.Helper()
	expr, err := parser.ParseExpr(q.expr)
	if err != nil {
		t.Fatalf("%s: %v: %s", q.where, err, q.expr)
	}
	var found []*parser.VectorSelector
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			found = append(found, v)
		}
		return nil
	})
	return found
}

// TestQueriesParse wants each query to be one that Prometheus takes, and to ask for something.
func TestQueriesParse(t *testing.T) {
	t.Parallel()
	rules, _ := ruleQueries(t)
	all := slices.Concat(rules, dashboardQueries(t))
	if len(all) < 60 {
		t.Errorf("only %d queries found", len(all))
	}
	for _, q := range all {
		if len(selectors(t, q)) == 0 {
			t.Errorf("%s asks for no metric: %s", q.where, q.expr)
		}
	}
}

// TestRulesTellDeploymentsApart wants each rule to keep the namespace: an alert without it doesn't say whose it is.
func TestRulesTellDeploymentsApart(t *testing.T) {
	t.Parallel()
	rules, _ := ruleQueries(t)
	for _, q := range rules {
		expr, err := parser.ParseExpr(q.expr)
		pipelinetest.Must(t, err)
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			if a, ok := n.(*parser.AggregateExpr); ok && slices.Contains(a.Grouping, "namespace") == a.Without {
				t.Errorf("%s drops the namespace: %s", q.where, a)
			}
			return nil
		})
	}
}

// TestPanels wants panels that lie beside each other and show something.
func TestPanels(t *testing.T) {
	t.Parallel()
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range readDashboard(t).Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %s asks for nothing", p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %s lies on %s, or beyond the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// TestEveryAlertSaysWhatToDo wants a summary that begins with what users see, and a runbook that is there and names the
// alert.
func TestEveryAlertSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for _, g := range ruleFile(t).Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			if s := r.Labels["severity"]; s != "page" && s != "ticket" {
				t.Errorf("%s: severity %q is neither page nor ticket", r.Alert, s)
			}
			if s := r.Annotations["summary"]; !strings.Contains(strings.ToLower(s), "users ") {
				t.Errorf("%s: the summary doesn't say what users see: %s", r.Alert, s)
			}
			page, ok := strings.CutPrefix(r.Annotations["runbook_url"], runbookURL)
			if !ok {
				t.Errorf("%s: runbook_url %q is none of ours", r.Alert, r.Annotations["runbook_url"])
				continue
			}
			text, err := os.ReadFile(filepath.Join(runbooks, page))
			if err != nil {
				t.Errorf("%s: %v", r.Alert, err)
				continue
			}
			if names := strings.Contains(string(text), "duetime why"); names != (r.Annotations["next"] != "") {
				t.Errorf("%s: the runbook asks duetime why: %v; the annotation next: %q", r.Alert, names, r.Annotations["next"])
			}
			if !strings.Contains(string(text), "`"+r.Alert+"`") {
				t.Errorf("%s: its runbook %s doesn't name it", r.Alert, page)
			}
		}
	}
}
