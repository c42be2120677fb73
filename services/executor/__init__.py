"""Applies works to push members and records observations.

Consumes: `work.<cluster>.*` and `cluster.*` facts, its own observations, the members' Kubernetes APIs.
Produces: `observed.<cluster>.*` (WorkObserved); creates, updates and deletes objects in members.
Owns: the connection to each push member, one independent lane per cluster.
Never: decides the works of a cluster, deletes without a withdrawn work, or lets a slow cluster delay another.
"""
