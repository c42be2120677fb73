"""The embedded Kubernetes API server: the control plane of an installation that brings none, and of simulated members.

Consumes: requests of Kubernetes clients; the stream of its own objects.
Produces: one subject per object on that stream, and the wrapped keys of its Secrets; an audit log where one is set.
Owns: stream `OBJECTS` (of a simulated member: `OBJECTS_<member>`) and the stream of its keys beside it.
Never: reads or writes a fact, acts on a policy, or starts a container.
"""
