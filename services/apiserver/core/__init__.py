"""What every part of the API server shares: the request, its identity, Status errors, counters, the audit log."""
