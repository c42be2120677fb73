"""Rules about the log as a whole: sizes of streams, order of a restore."""
