"""Checks of what is asked of a running container: its probes, and the handlers of its life cycle."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import Errors, FieldError, invalid
from services._rules.kubernetes.validation.field_rules import (
    Rules,
    choice,
    every,
    inside,
    needed,
    not_negative,
    number,
    one_of,
    port_or_name,
    refused,
)


def _header(header: Manifest, field: str) -> list[FieldError]:
    name = header.get("name", "")
    return [invalid(field, name, text) for text in names.http_header(name)]


_PORT = inside("port", port_or_name, absent=0)
_ASKED: dict[str, Rules] = {
    "exec": (needed("command"),),
    "httpGet": (needed("path"), _PORT, choice("scheme", ("HTTP", "HTTPS"), blank=True), every("httpHeaders", _header)),
    "tcpSocket": (_PORT,),
    "grpc": (_PORT,),
}
_NONE, _SEVERAL = "must specify a handler type", "may not specify more than 1 handler type"
_PROBE = (
    one_of(_ASKED, _NONE, _SEVERAL),
    not_negative("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"),
    number("terminationGracePeriodSeconds", 1, detail="must be greater than 0"),
)
_ONCE = number("successThreshold", 1, 1, "must be 1", absent=0)
_NO_GRACE = refused(
    "terminationGracePeriodSeconds",
    "must not be set for readinessProbes",
    lambda probe: probe.get("terminationGracePeriodSeconds") is not None,
)
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
ASKED = (
    inside("livenessProbe", *_PROBE, _ONCE),
    inside("startupProbe", *_PROBE, _ONCE),
    inside("readinessProbe", *_PROBE, _NO_GRACE),
)
"""Rules of the probes of a container."""
_TOLD = one_of({**_ASKED, "sleep": ()}, _NONE, _SEVERAL)


def lifecycle(value: Manifest, field: str, grace: int | None) -> Errors:
    """Yield what is wrong with the handlers of a container in a pod with that period of grace."""
    for event in ("postStart", "preStop"):
        if (handler := value.get(event)) is None:
            continue
        place = f"{field}.{event}"
        yield from _TOLD(handler, place)
        seconds = handler.get("sleep", {}).get("seconds", 0)
        if grace is not None and not 0 <= seconds <= grace:
            text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            yield invalid(f"{place}.sleep", seconds, text)
