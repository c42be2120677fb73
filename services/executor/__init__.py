"""Delivers works to push members and reports what is there.

Consumes: `work.<cluster>.*` and `cluster.*` facts, its own observations, the members' Kubernetes APIs.
Produces: `observed.<cluster>.*` (WorkObserved); creates, updates and deletes objects in members.
Owns: the connection to each push member, one independent lane per cluster.
Never: decides what a cluster shall hold, deletes without a withdrawn work, or lets a slow cluster delay another.
"""
