"""What is written into a control plane in containers before members join."""

from __future__ import annotations

import json
from pathlib import Path

from services.cli.containers.entering import PLURALS
from services.cli.installation.certificate_files import write
from services.cli.members.reached_addresses import ReachedAddresses


def test_every_object_for_the_gateway_has_a_path(tmp_path: Path) -> None:
    made = tmp_path / "made"
    write(made, ReachedAddresses(), (), (), ())
    items = json.loads((made / "aggregation.json").read_text())["items"]
    assert {"APIService", "ClusterRole"} <= {item["kind"] for item in items} <= PLURALS.keys()
