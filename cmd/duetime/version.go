package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/build"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/migrations"
)

// builtFrom is what the command shows.
type builtFrom struct {
	build.Info

	Schema int64 `json:"schema"` // the newest migration that this tool brings
}

func (t *tool) version() *cobra.Command {
	cmd := &cobra.Command{
		Use: "version [--json]", Args: cobra.NoArgs,
		Short: "Show what this tool was built from: version, commit, Go, tz database and schema",
		RunE: func(*cobra.Command, []string) error {
			schema, err := store.NewestMigration(migrations.Files, store.MySQL)
			return showing(t, t.writeVersion)(builtFrom{build.Read(), schema}, err)
		},
	}
	t.jsonFlag(cmd, jsonObject)
	return cmd
}

func (t *tool) writeVersion(v builtFrom) error {
	return writeTable(t.out, [][]string{
		{"version", v.Version},
		{"revision", v.Revision},
		{"go", v.Go},
		{"tz database", v.TZ},
		{"schema", strconv.FormatInt(v.Schema, 10)},
	})
}
