"""Records the objects and policies of the control plane as facts.

Consumes: every kind of the control plane's Kubernetes API, found by discovery.
Produces: `template.*`, `policy.*` and `binding.*` facts; the claim labels on templates, permanent ids on policies.
Owns: which policy claims a template, and what its binding asks for.
Never: chooses a cluster, reads a member, or takes a failed list for an empty one.
"""
