package chaos_test

// machineRows are the rows whose servers run on small disks, or by clocks of their own.
func machineRows() []entry { return []entry{disksRow(), clocksRow()} }
