"""Says how many further replicas of an object fit on the nodes of each member.

Consumes: binding, cluster, placement and eviction facts, its own estimates; nodes and pods of push members.
Produces: `estimate.<shard>.<key>` (CapacityEstimated).
Owns: the compact views of members' nodes, and when an estimate is due (`services/_rules/estimation_asking.py`).
Never: decides where anything runs, or speaks up while nobody asks.
"""
