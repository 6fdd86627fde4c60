package process

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// Flags are what every long-running command takes on its command line.
type Flags struct {
	// Config is the path of the configuration file.
	Config string
	// Explicit is true if the path was given, so that a missing file is an error.
	Explicit bool
}

// parseFlags reads args. It has said what is wrong on stderr when it returns an error, and has written the help to
// stdout when that error is flag.ErrHelp.
func parseFlags(name string, args []string, defaultConfig string, stdout, stderr io.Writer) (Flags, error) {
	var f Flags
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.SetOutput(io.Discard) // one line on a mistake, not the whole usage
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
