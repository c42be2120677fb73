"""Decides what the detector has to see before a restored log counts as compared with the control plane."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from schemas.events.binding import BindingRequested
from schemas.events.policy import PolicyChanged
from schemas.events.template import TemplateChanged
from services._rules.log.restore_order import absence_in_doubt
from services.detector.state import DetectorState


def unlisted(state: DetectorState) -> Counter[str]:
    """Kinds of which something stands on the log and no complete list was seen, each with its number of objects.

    Of a kind without any fact nothing outdated can be delivered: it need not be listed.
    """
    open_templates = {key for key, fact in state.template_facts.items() if isinstance(fact, TemplateChanged)}
    open_templates |= {key for key, fact in state.binding_facts.items() if isinstance(fact, BindingRequested)}
    found = Counter(key.group_resource for key in open_templates if key.group_resource not in state.listed)
    found.update(
        fact.key.kind
        for fact in state.policy_facts.values()
        if isinstance(fact, PolicyChanged) and fact.key.kind not in state.listed
    )
    return found


def unsettled(state: DetectorState, waiting: Iterable[object], asking: int) -> str:
    """What is missing; empty when everything on the log was compared.

    `waiting` are keys that the log could not take so far, `asking` how many wait for interpreters.
    """
    if doubt := absence_in_doubt(state.guard):
        return doubt
    if not state.policies_listed:
        return "the policies of the control plane have not been listed yet"
    if kinds := unlisted(state):
        named = ", ".join(f"{kind} ({count} on the log)" for kind, count in sorted(kinds.items())[:5])
        more = f" and {len(kinds) - 5} more" if len(kinds) > 5 else ""
        return (
            f"the control plane has not listed {named}{more}: each has to be served and may be listed by the detector; "
            "or end the restore without them: fleetlog log release"
        )
    if named := ", ".join(str(key) for key in list(waiting)[:3]):
        return f"manifests or keys could not be stored yet: {named}"
    return f"{asking} objects wait for interpreters" if asking else ""
