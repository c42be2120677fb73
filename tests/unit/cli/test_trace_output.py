"""How the command `fleetlog trace` shows where clients of a cluster are sent."""

from __future__ import annotations

from services._rules.endpoints.service_trace import LeftOut, ServiceTrace, TracedEndpoint, TracedSlice
from services.cli.queries.trace_output import text_of


def test_each_endpoint_says_whether_clients_are_sent_there() -> None:
    near = TracedEndpoint(("10.4.0.7",), True, "Pod/web-1", ("eu-b",))
    far = TracedEndpoint(("10.1.0.4",), True, "Pod/web-2", ("eu-a",), used=False)
    down = TracedEndpoint(("10.4.0.8",), False, "Pod/web-3")
    found = ServiceTrace(
        "default/web",
        "member2",
        "",
        (
            TracedSlice("member1", "imported-member1-a", ("http/TCP",), (far,), kept="member1 is not ready"),
            TracedSlice("member4", "imported-member4-b", ("http/TCP",), (near, down)),
            TracedSlice("member5", "imported-member5-c", ("http/TCP",), (near,), missing="it is on its way"),
        ),
        ("imported-member5-c is not in member2: it is on its way",),
        (LeftOut("member3", "member3 is tainted k:NoExecute"),),
        "clients in eu-b use the endpoints that name their zone",
    )
    lines = [" ".join(line.split()) for line in text_of(found).splitlines()]
    assert lines == [
        "derived-web in member2: in place, 1 ready endpoints",
        (
            "member1 10.1.0.4 ready, not used from here for eu-a Pod/web-2 imported-member1-a http/TCP "
            "last resort: member1 is not ready"
        ),
        "member4 10.4.0.7 ready for eu-b Pod/web-1 imported-member4-b http/TCP",
        "member4 10.4.0.8 not ready Pod/web-3 imported-member4-b http/TCP",
        "member5 10.4.0.7 ready for eu-b Pod/web-1 imported-member5-c http/TCP it is on its way",
        "left out: member3: member3 is tainted k:NoExecute",
        "locality: clients in eu-b use the endpoints that name their zone",
        "problem: imported-member5-c is not in member2: it is on its way",
    ]
