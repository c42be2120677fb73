"""Estimates how many further replicas of an object fit on the nodes of each member.

Consumes: binding, cluster, placement, eviction, descheduling and rollup facts, its own estimates; nodes, pods and
quotas of push members; what agents of pull members answer; requests on `unschedulable.*`.
Produces: `estimate.<shard>.<key>` (CapacityEstimated).
Owns: the node index of each member, and when an estimate is due (`services/_rules/scheduling/estimate_requests.py`).
Never: decides where anything runs, or records an estimate that no binding needs.
"""
