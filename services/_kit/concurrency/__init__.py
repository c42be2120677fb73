"""Tasks with an owner, keyed background work and debouncing. What a task does belongs to its service."""
