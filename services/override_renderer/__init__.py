"""Renders the works of each cluster from templates, placements and overrides.

Consumes: template, binding, placement, eviction, descheduling, policy (overrides) and cluster facts.
Produces: `work.<cluster>.<key>` (WorkRendered, WorkWithdrawn) and manifest blobs.
Owns: replica revision, pruning, overrides, the labels and annotations that mark a copy as ours.
Never: talks to a cluster, chooses one, or reads a status.
"""
