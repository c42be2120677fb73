"""Deschedules replicas that found no node in the cluster they were assigned to.

Consumes: binding, placement, eviction and rollup facts of Deployments, its own facts; the estimator's answers about
pods that wait for a node.
Produces: `descheduling.<shard>.<key>` (ReplicasDescheduled).
Owns: when a replica counts as not to be had; the rules are in `services/_rules/scheduling/descheduling.py`.
Never: chooses where replicas go instead (the scheduler does), or connects to a member.
"""
