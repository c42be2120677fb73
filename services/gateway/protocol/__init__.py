"""Content of the gateway's HTTP API: the kinds that it serves, rendered objects, identities."""
