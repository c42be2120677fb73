"""Decides what the status of one MultiClusterIngress says, and what keeps its requests from reaching pods."""

from __future__ import annotations

from typing import Final

from services._rules.decision import Decision
from services._rules.endpoints.health_gates import is_ready
from services._rules.endpoints.ingress_backends import Found, backend_problems, wanted_status
from services._rules.kubernetes.event_objects import note_about
from services.networking.ingresses.ingress_objects import IngressName, IngressObjects, ShowRoutes
from services.networking.service_objects import Tell
from services.networking.state import NetworkingState, ServiceName

_COMPONENT: Final = "networking"
_TOLD: Final = 5
"""Services whose problems one Event names."""


def decide_ingress(state: NetworkingState, name: IngressName, objects: IngressObjects) -> Decision:
    """What becomes of one MultiClusterIngress; nothing is recorded of it on the log."""
    ingress = objects.of(name)
    if ingress is None:
        return Decision(effects=[Tell(name.key, None)])
    found = {service: _found(state, objects, name.namespace, service) for service in ingress.services}
    blocked = state.backends.blocked
    effects: list[ShowRoutes | Tell] = []
    status = wanted_status(ingress, found, blocked)
    if status is not None:
        effects.append(ShowRoutes(name, ingress.uid, status))
    problems = backend_problems(ingress, found, blocked, name.namespace)
    if problems:
        more = f"; {len(problems) - _TOLD} more Services" if len(problems) > _TOLD else ""
        message = "; ".join(words for _, words in problems[:_TOLD]) + more
        note = note_about(name.involved(ingress.uid), problems[0][0], message, _COMPONENT, warning=True)
        effects.append(Tell(name.key, note))
    else:
        effects.append(Tell(name.key, None))
    return Decision(effects=effects)


def _found(state: NetworkingState, objects: IngressObjects, namespace: str, service: str) -> Found:
    exported = state.services.get(ServiceName(namespace, service))
    offered: dict[str, int] = {}
    for (cluster, _), event in exported.collected.items() if exported is not None else ():
        ready = sum(1 for endpoint in event.endpoints if is_ready(endpoint))
        offered[cluster] = offered.get(cluster, 0) + ready
    place = (namespace, service)
    return Found(objects.ports(place), state.backends.of(place), offered)
