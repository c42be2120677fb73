"""Service card: the embedded Kubernetes API server; objects live in a stream of the log, one subject per object."""
