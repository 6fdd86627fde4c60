package pet_test

import (
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/pet"
)

// wrong returns the problems of the settings after a change.
func wrong(change func(s *pet.Settings)) string {
	s, p := pet.DefaultSettings(), config.Problems{}
	change(s)
	s.Validate(&p)
	return p.Error()
}

func TestSettingsNameKeyValueAndLimit(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*pet.Settings){
		"game.start.food: -1 is below the limit 0": func(s *pet.Settings) { s.Start.Food = -1 },
		"game.meal: 0s is below":                   func(s *pet.Settings) { s.Meal = 0 },
		`game.listen: "" is not`:                   func(s *pet.Settings) { s.Listen = "" },
		`game.lessons: must be empty`:              func(s *pet.Settings) { s.Lessons, s.Listen = "run", "0.0.0.0:8080" },
		`game.admin: "127.0.0.1:8080" is taken`:    func(s *pet.Settings) { s.Admin = ":8080" },
	} {
		if got := wrong(change); !strings.Contains(got, want) || strings.Contains(got, ";") {
			t.Errorf("got %q, want %s and nothing else", got, want)
		}
	}
	for name, change := range map[string]func(*pet.Settings){
		"defaults":   func(*pet.Settings) {},
		"ipv6":       func(s *pet.Settings) { s.Listen = "[::1]:8080" },
		"lessons":    func(s *pet.Settings) { s.Lessons = "run" },
		"free ports": func(s *pet.Settings) { s.Listen, s.Admin = ":0", ":0" },
	} {
		if got := wrong(change); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
