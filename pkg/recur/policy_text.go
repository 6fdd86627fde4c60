package recur

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// String returns "last", "skip" or "all 3".
func (c CatchUp) String() string {
	switch c {
	case CatchUpLast:
		return "last"
	case CatchUpSkip:
		return "skip"
	}
	return fmt.Sprintf("all %d", int(c))
}

// ParseCatchUp reads what String writes; a FieldError says what it reads.
func ParseCatchUp(text string) (CatchUp, error) {
	switch text {
	case "last":
		return CatchUpLast, nil
	case "skip":
		return CatchUpSkip, nil
	}
	number, all := strings.CutPrefix(text, "all ")
	if n, err := strconv.Atoi(number); all && err == nil && n >= 1 && n <= maxCatchUp {
		return CatchUpAll(n), nil
	}
	return 0, Policy{CatchUp: maxCatchUp + 1}.Check()
}

var overlapNames = []string{OverlapSkip: "skip", OverlapBufferOne: "buffer one", OverlapAllow: "allow"}

// String returns "skip", "buffer one" or "allow".
func (o Overlap) String() string {
	if o < OverlapSkip || o > OverlapAllow {
		return fmt.Sprintf("overlap %d", int(o))
	}
	return overlapNames[o]
}

// ParseOverlap reads what String writes; a FieldError says what it reads.
func ParseOverlap(text string) (Overlap, error) {
	for o, name := range overlapNames {
		if text == name {
			return Overlap(o), nil
		}
	}
	return 0, Policy{Overlap: OverlapAllow + 1}.Check()
}

// policyText is the JSON form of a Policy: durations as time.Duration prints them, times as RFC 3339. Defaults are left
// out.
type policyText struct {
	CatchUp  string     `json:"catch_up,omitempty"`
	Window   string     `json:"window,omitempty"`
	Overlap  string     `json:"overlap,omitempty"`
	Jitter   string     `json:"jitter,omitempty"`
	Start    *time.Time `json:"start,omitempty"`
	End      *time.Time `json:"end,omitempty"`
	Count    int        `json:"count,omitempty"`
	Revision int        `json:"revision,omitempty"`
}

// MarshalJSON writes the policy without its defaults, such as {"catch_up":"all 3","jitter":"5m0s"}.
func (p Policy) MarshalJSON() ([]byte, error) {
	text := policyText{
		Window: durationText(p.Window), Jitter: durationText(p.Jitter), Start: timeText(p.Start), End: timeText(p.End),
		Count: p.Count, Revision: p.Revision,
	}
	if p.CatchUp != CatchUpLast {
		text.CatchUp = p.CatchUp.String()
	}
	if p.Overlap != OverlapSkip {
		text.Overlap = p.Overlap.String()
	}
	return json.Marshal(text)
}

// UnmarshalJSON reads what MarshalJSON writes. Fields that it does not know are ignored: they are of a later version.
func (p *Policy) UnmarshalJSON(data []byte) (err error) {
	var text policyText
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	*p = Policy{Count: text.Count, Revision: text.Revision}
	if text.CatchUp != "" {
		if p.CatchUp, err = ParseCatchUp(text.CatchUp); err != nil {
			return err
		}
	}
	if text.Overlap != "" {
		if p.Overlap, err = ParseOverlap(text.Overlap); err != nil {
			return err
		}
	}
	if text.Start != nil {
		p.Start = *text.Start
	}
	if text.End != nil {
		p.End = *text.End
	}
	if p.Window, err = parseDuration("window", text.Window); err != nil {
		return err
	}
	p.Jitter, err = parseDuration("jitter", text.Jitter)
	return err
}

func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func timeText(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func parseDuration(field, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, &FieldError{field, "must be a duration such as 1h30m"}
	}
	return d, nil
}
