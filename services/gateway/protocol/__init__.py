"""What the gateway says over HTTP: documents, Status errors, selectors, rendered objects, identities."""
