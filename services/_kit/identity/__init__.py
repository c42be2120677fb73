"""The identity of an endpoint: read over a separate connection, and verified before its lists count."""
