"""What the log tells of one object, and how long it is kept. Reading the log is in _kit."""
