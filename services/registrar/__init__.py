"""Serves the agents of pull members: gives each its consumer and manifest bytes, and stores its observations.

Consumes: `work.>`, `cluster.*` and `observed.>` facts; agents' requests on `hello.*`, `blobs.*` and `reports.*`;
the estimator's questions on `rooms.*`.
Produces: `observed.<cluster>.*` (WorkObserved) and `request.<cluster>.agent` (MemberRequested) as agents report; one
consumer on FACTS for every agent; the questions in answers to agents, and agents' answers to the estimator.
Owns: the consumers `agent-<cluster>`.
Never: accepts reports of an agent about another cluster, about objects without a work there, or without bounds.
"""
