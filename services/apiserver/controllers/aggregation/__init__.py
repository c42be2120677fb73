"""APIServices: those of what is served here, and requests that other servers answer."""
