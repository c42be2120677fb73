"""Event loop and tasks of a process, keyed background work, debouncing. What a task does belongs to its service."""
