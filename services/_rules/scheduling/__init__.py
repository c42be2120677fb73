"""The scheduling algorithm: from clusters and a binding to target clusters, as pure functions (reference 02)."""
