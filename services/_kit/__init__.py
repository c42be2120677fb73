"""The runtime of every service: log, leases, projections, the decision loop, clients of Kubernetes."""
