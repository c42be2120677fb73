"""Scales what FederatedHPAs and CronFederatedHPAs name.

Consumes: FederatedHPAs, CronFederatedHPAs and HorizontalPodAutoscalers of the control plane; template, binding,
placement, eviction, descheduling, rollup and cluster facts; pods, their samples and scales of members; custom and
external metrics of the control plane.
Produces: `autoscaling.<kind>.<namespace>.<name>` (ReplicasRecommended, ScheduleAdvanced and their ends); writes the
scale of targets, the status of both kinds, and the label by which replicas of members are retained.
Owns: how many replicas a target should have; the rules are in `services/_rules/autoscaling`.
Never: says which cluster gets how many of them (the scheduler does), or changes a member.
"""
