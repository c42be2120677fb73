"""Serves the facts of the log as Kubernetes objects (ResourceBindings and Works).

Consumes: binding, placement, eviction, descheduling, rollup, work and cluster facts, and observations of works; HISTORY
on request.
Produces: nothing; it answers get, list and watch of bindings and works, and `/fleetlog/v1/history`.
Owns: the shape of these projections, their resourceVersions and their uids.
Never: writes, decides, talks to a cluster, or shows the content of a Secret.
"""
