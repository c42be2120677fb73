"""Faults of simulated members, set while they run."""

from __future__ import annotations

from urllib.request import Request, urlopen

import msgspec

from tests.e2e.fleet import Fleet


def fault(fleet: Fleet, member: str, kind: str, **fault: object) -> None:
    """Set a fault of a simulated member: of its API (`mode` stop closes its port, none opens it) or of its pods."""
    url = (fleet.layout.data(member) / "admin.url").read_text().strip()
    request = Request(
        f"{url}/faults{kind}",
        data=msgspec.json.encode(fault),
        headers={"Authorization": f"Bearer {fleet.installation.token}", "Content-Type": "application/json"},
    )
    with urlopen(request, timeout=60) as answer:
        assert answer.status == 200
