"""Applies the works of one pull member from inside the member, and reports observations.

Consumes: the works of its own cluster, through an account of its own; the member's Kubernetes API; requests of the
hub's callers, where its settings permit some.
Produces: `observed.<cluster>.*` (WorkObserved); heartbeats and samples on `hello.<cluster>`; objects in the member;
answers on `tunnel.<cluster>.*`, and records of them (MemberRequested) by way of the registrar.
Owns: its copy of the works on disk, so that it continues while the hub is unreachable.
Never: sees another cluster, writes a fact, takes a lease on the log, or deletes because the hub does not answer.
"""
