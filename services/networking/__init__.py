"""Brings the endpoints of exported Services to the clusters that import them.

Consumes: observations and works of ServiceExports, works of Services, cluster facts; templates, placements and
evictions of what endpoints depend on; ServiceExports, ServiceImports, MultiClusterIngresses, Services and imported
EndpointSlices of the control plane.
Produces: `endpoints.<cluster>.<namespace>.<name>` (EndpointsCollected, EndpointsReleased); writes derived Services and
imported EndpointSlices of the control plane, the status of ServiceExports and ServiceImports, and where the backends
of a MultiClusterIngress are.
Owns: which endpoints count for other clusters; the rules are in `services/_rules/endpoints`.
Never: reads or writes a member (executor and agents report, the detector and the renderer deliver), or changes a
Service that it has not made.
"""
