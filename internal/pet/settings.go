package pet

import (
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/config"
)

// Settings are the game's section of the configuration: a config.Section.
type Settings struct {
	Admin   string        `key:"admin" form:"addr" doc:"as event.admin"`
	Listen  string        `key:"listen" form:"addr" doc:"host:port of the game's page and API; without a host it is loopback"`
	Console string        `key:"console" doc:"address of the page of duetime console, to which the game's page links; empty is none"`
	Meal    time.Duration `key:"meal" doc:"how long a meal takes, 1ms to 87600h"`
	Speedup time.Duration `key:"speedup" doc:"how much sooner a speed-up card makes a meal end, 1ms to 87600h"`
	Lessons string        `key:"lessons" doc:"folder of the workers' pid files, as scripts/up makes it: the game's page may kill these workers and flush Redis; only on loopback; empty is none"`
	Start   Start         `key:"start"`
}

// Start is the food and the cards of a new pet.
type Start struct {
	Food          int `key:"food" doc:"food of a new pet, 0 to 1000000"`
	SpeedupCards  int `key:"speedup_cards" doc:"speed-up cards of a new pet, 0 to 1000000"`
	AutofeedCards int `key:"autofeed_cards" doc:"auto-feed cards of a new pet, 0 to 1000000"`
}

// DefaultSettings returns the settings for one machine.
func DefaultSettings() *Settings {
	return &Settings{
		Listen: "127.0.0.1:8080", Console: "http://127.0.0.1:8090/", Meal: 4 * time.Hour, Speedup: 2 * time.Hour,
		Start: Start{Food: 100, SpeedupCards: 10, AutofeedCards: 10},
	}
}

// Rules returns the rules of these settings.
func (s *Settings) Rules() Rules {
	return Rules{
		Meal: s.Meal, Speedup: s.Speedup, Food: s.Start.Food,
		SpeedupCards: s.Start.SpeedupCards, AutofeedCards: s.Start.AutofeedCards,
	}
}

// Name is the section's name.
func (*Settings) Name() string { return "game" }

// Validate adds a problem for each key out of its limits.
func (s *Settings) Validate(p *config.Problems) {
	const maxStart, tenYears = 1_000_000, 87600 * time.Hour
	p.CheckInt("game.start.food", s.Start.Food, 0, maxStart)
	p.CheckInt("game.start.speedup_cards", s.Start.SpeedupCards, 0, maxStart)
	p.CheckInt("game.start.autofeed_cards", s.Start.AutofeedCards, 0, maxStart)
	p.CheckDuration("game.meal", s.Meal, time.Millisecond, tenYears)
	p.CheckDuration("game.speedup", s.Speedup, time.Millisecond, tenYears)
	p.CheckAdmin("game.admin", s.Admin)
	p.CheckListen("game.listen", s.Listen)
	if u, err := url.Parse(s.Console); s.Console != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		p.Addf("game.console: %q is no address such as http://127.0.0.1:8090/", s.Console)
	}
	if host, _, err := net.SplitHostPort(config.Loopback(s.Listen)); s.Lessons != "" && err == nil && host != "localhost" && !net.ParseIP(host).IsLoopback() {
		p.Addf("game.lessons: must be empty while game.listen is %q, which is not on loopback", s.Listen)
	}
	if admin := config.Loopback(s.Admin); admin != "" && admin == config.Loopback(s.Listen) && !strings.HasSuffix(admin, ":0") {
		p.Addf("game.admin: %q is taken by game.listen", admin)
	}
}
