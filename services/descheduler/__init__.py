"""Takes back replicas that found no node in the cluster they were given to.

Consumes: binding, placement, eviction and rollup facts of Deployments, its own facts; the estimator's answers about
pods that wait for a node.
Produces: `descheduling.<shard>.<key>` (ReplicasDescheduled).
Owns: when a replica counts as not to be had; the rules are in `services/_rules/scheduling/descheduling.py`.
Never: says where replicas go instead (the scheduler sees that some are missing), or talks to a member.
"""
