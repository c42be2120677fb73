"""Answers requests that the hub carries to this member: what is permitted, in whose name, and the record of it."""
