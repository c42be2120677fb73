"""Lists, watches and the bytes of answers."""
