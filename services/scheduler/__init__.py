"""Decides which clusters run an object, and how many replicas each.

Consumes: binding, cluster, estimate and eviction facts, its own placements.
Produces: `placement.<shard>.<key>` (PlacementDecided, PlacementFailed, PlacementReleased).
Owns: the choice of clusters; the algorithm is in `services/_rules/scheduling/`, when it runs is in `decide.py`.
Never: reads a cluster or the Kubernetes API, renders a manifest, or moves a settled workload without a trigger.
"""
