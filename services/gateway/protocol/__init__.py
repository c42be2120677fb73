"""Content of the gateway's HTTP API: documents, Status errors, selectors, rendered objects, identities."""
