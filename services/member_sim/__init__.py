"""Simulated member cluster: an embedded API server plus small controllers that play nodes and workloads.

Consumes: its own API server's watch streams (in process), fault requests on a loopback admin port.
Produces: ReplicaSets, Pods, Endpoints, volumes and statuses of that cluster; nothing on the control plane's log.
Owns: the stream ``OBJECTS_<member>`` (through its API server); certificates and kubeconfig in its data directory.
Never: reads the control plane, knows policies or bindings, writes node heartbeats.
"""
