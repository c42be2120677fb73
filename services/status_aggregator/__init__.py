"""Sums what members report into one status per object.

Consumes: template, binding, placement, eviction, work and cluster facts, and observations of works.
Produces: `rollup.<shard>.<key>` (StatusRolledUp), the status of templates, Kubernetes Events about all of it.
Owns: the aggregated status of bindings, the status subresource of templates.
Never: talks to a member cluster, or writes anything but status and Events.
"""
