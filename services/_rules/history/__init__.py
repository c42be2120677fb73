"""The history of one object on the log, and its retention. Reading the log is in _kit."""
