"""Decides which clusters run an object, and how many replicas each.

Consumes: binding, cluster, estimate, eviction, descheduling and rollup facts, quotas, placements.
Produces: `placement.<shard>.<key>` (PlacementDecided, PlacementFailed, PlacementReleased).
Owns: the choice of clusters; the algorithm is in `services/_rules/scheduling/`, when it runs is in `decide.py`,
the objects decided again when clusters change in `queue/unschedulable_queue.py`.
Never: reads a cluster or the Kubernetes API, renders a manifest, or moves a settled workload without a trigger.
"""
