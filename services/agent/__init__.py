"""Keeps one pull member as its works say, from inside the member, and reports what is there.

Consumes: the works of its own cluster, through an account of its own; the member's Kubernetes API.
Produces: `observed.<cluster>.*` (WorkObserved); greetings and samples on `hello.<cluster>`; objects in the member.
Owns: its copy of the works on disk, so that it goes on for as long as the hub is away.
Never: sees another cluster, writes a fact, takes a lease on the log, or deletes because the hub was silent.
"""
