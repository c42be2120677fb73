"""Decides which clusters an object has to leave, and when it has left them.

Consumes: binding, placement, cluster and rollup facts, its own evictions.
Produces: `eviction.<shard>.<key>` (EvictionRequested, EvictionFinished).
Owns: when an object leaves a cluster; the rules are in `services/_rules/failover/`, when they apply is in `decide.py`.
Never: chooses where an object goes, taints a cluster, or removes a copy: others follow its facts.
"""
