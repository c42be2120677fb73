"""The runtime of every service: log, leases, projections, the loop that decides, clients of Kubernetes."""
