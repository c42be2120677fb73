"""Aggregates the observations of members into one status per object.

Consumes: template, binding, placement, eviction, work and cluster facts, observations of works, and what is configured
for interpretation.
Produces: `rollup.<shard>.<key>` (StatusRolledUp), the status of templates and quotas, Kubernetes Events.
Owns: the aggregated status of bindings, the status subresource of templates and quotas.
Never: talks to a member cluster, runs a user's script in its own process, or writes anything but status and Events.
"""
