"""Serves the facts of the log as Kubernetes objects (ResourceBindings and Works), and metrics of members as one.

Consumes: binding, placement, eviction, descheduling, rollup, work and cluster facts, and observations of works; HISTORY
on request.
Produces: `request.<cluster>.hub` (MemberRequested) for requests that it carried into members; it answers get, list and
watch of bindings and works, `/fleetlog/v1/history`, requests for members, and questions about metrics of all of them.
Owns: the shape of these projections, their resourceVersions and their uids.
Never: writes a fact of FACTS, decides, asks a cluster of itself for more than its metrics, or shows the content of a
Secret.
"""
