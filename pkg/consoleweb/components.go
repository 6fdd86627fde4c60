package consoleweb

import (
	"fmt"
	"slices"
	"strings"

	"github.com/duetime/duetime/pkg/console"
)

// component is a server or a group of processes, or several of which the same is told, and how it is.
type component struct {
	Name, Text string
	Class      string // late or dead; empty: all is well
	Part       string // of the view System, which tells more of it
}

// components tells what is known of each server and process of the deployment: nothing without the frame.
func (n *nowView) components(v *visit) []component {
	if n.FrameErr != nil {
		return nil
	}
	all := []component{{Name: "MySQL", Text: v.T("now.ok")}}
	if !n.NoIndex {
		redis := component{Name: "Redis", Text: v.T("now.ok")}
		if n.IndexErr != nil {
			redis = component{"Redis", v.T("now.away"), "late", "shards"}
		}
		all = append(all, redis)
		if degraded := n.degraded(); degraded > 0 {
			all = append(all, component{Name: "Kafka", Text: v.T("now.hintslate", degraded), Class: "late"})
		} else if n.asked("Kafka") {
			all = append(all, component{Name: "Kafka", Text: v.T("now.ok")})
		}
		if n.asked("ZooKeeper") {
			all = append(all, component{Name: "ZooKeeper", Text: v.T("now.ok")})
		}
		for _, l := range n.Leads {
			all = append(all, n.leader(v, l))
		}
	}
	for i, c := range all {
		if n.away(c.Name) {
			all[i].Text, all[i].Class = v.T("now.away"), "late"
		}
	}
	return joinAlike(v, append(all, n.workers(v)))
}

// joinAlike makes one of those that are well and of which the same is told.
func joinAlike(v *visit, all []component) (out []component) {
	for _, c := range all {
		same := slices.IndexFunc(out, func(o component) bool { return c.Class == "" && o.Text == c.Text && o.Class == "" })
		if same < 0 {
			out = append(out, c)
			continue
		}
		out[same].Name += v.T("comma") + c.Name
	}
	return out
}

// asked reports whether a server was asked whether it answers.
func (n *nowView) asked(server string) bool {
	return len(n.Why.Answers) > 0 && !slices.Contains(n.Why.Unread, server)
}

// away reports whether a server was asked, and did not answer.
func (n *nowView) away(server string) bool {
	return slices.ContainsFunc(n.Why.Answers, func(a console.Answer) bool { return a.Evidence["server"] == server })
}

// leader tells who leads, how far a new leader has taken over, and how many others could.
func (n *nowView) leader(v *visit, l console.Leader) component {
	if l.Host == "" {
		return component{l.Name, v.T("nobody"), "dead", "leaders"}
	}
	spare := -1
	for _, p := range n.Processes {
		if p.Role == l.Name && p.State != console.ProcessSilent {
			spare++
		}
	}
	c := component{l.Name, v.T("now.leads", cleaned(l.Host)), "", "leaders"}
	if l.Of != nil && *l.Shards < *l.Of {
		c.Text, c.Class = c.Text+v.T("comma")+v.T("now.leadsof", *l.Shards, *l.Of), "late"
	}
	follow := v.T("now.nospare")
	if spare > 0 {
		follow = v.T("now.spare", spare)
	}
	c.Text += v.T("comma") + follow
	return c
}

// workers tells how many there are, which versions they run, and how many are silent.
func (n *nowView) workers(v *visit) component {
	count, silent, versions := 0, 0, []string{}
	for _, p := range n.Processes {
		switch {
		case len(p.Queues) == 0:
		case p.State == console.ProcessSilent:
			silent++
		default:
			count, versions = count+1, append(versions, cleaned(p.Version))
		}
	}
	if count == 0 {
		return component{v.T("workers"), v.T("none"), "late", "processes"}
	}
	slices.Sort(versions)
	text := fmt.Sprint(count, " · ", strings.Join(slices.Compact(versions), ", "))
	if silent > 0 { // if tasks are late for it, an answer says so
		text += v.T("comma") + v.T("now.silent", silent)
	}
	return component{v.T("workers"), text, "", "processes"}
}
