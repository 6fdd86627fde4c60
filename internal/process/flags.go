package process

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// Flags are the command-line flags of every long-running command.
type Flags struct {
	// Config is the path of the configuration file.
	Config string
	// Explicit says that the path was given: then a missing file is an error.
	Explicit bool
}

// parseFlags parses args. If they are wrong, it writes the reason to stderr. If they ask for help, it writes the help to
// stdout and returns flag.ErrHelp.
func parseFlags(name string, args []string, defaultConfig string, stdout, stderr io.Writer) (Flags, error) {
	var f Flags
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.SetOutput(io.Discard) // a mistake is answered with one line, not with the whole usage
	set.StringVar(&f.Config, "config", defaultConfig, "`path` of the configuration file; if not given, it may be missing")
	err := set.Parse(args)
	if err == nil && set.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprintf(stdout, "Usage: %s [--config path]\n\n", name)
		set.SetOutput(stdout)
		set.PrintDefaults()
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "%s: %v (see --help)\n", name, err)
	}
	set.Visit(func(given *flag.Flag) { f.Explicit = f.Explicit || given.Name == "config" })
	return f, err
}
