"""What may be said on the log, by whom, and how it is written down."""
