"""The contract of the log: event types, their writers and readers, and their encoding."""
