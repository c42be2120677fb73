"""Records member clusters as facts, and maintains the status of their Cluster objects.

Consumes: Cluster objects of the control plane, probes and summaries of push members, heartbeats of agents (`hello.*`).
Produces: `cluster.<name>` (ClusterChanged, ClusterRemoved), Cluster status, taints by condition, execution namespaces.
Owns: the Ready condition of clusters, the finalizer of Cluster objects.
Never: decides where anything runs; a heartbeat or a raw sample never becomes a fact.
"""
