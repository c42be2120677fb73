"""The rules of the domain: pure functions that know neither the log nor a clock."""
