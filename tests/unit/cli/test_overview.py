"""`fleetlog status` names what waits: a restore that is not compared, and a stream that is filling."""

from __future__ import annotations

from schemas.events.restore import RestoreCompared, RestoreReleased, RestoreStarted
from services._rules.log.stream_limits import Fill
from services.cli.overview.installation_facts import Facts
from services.cli.overview.status_command import document, text
from services.cli.overview.status_facts import Overview

FULL = Fill(stream="FACTS", bytes=800 << 20, most=1024 << 20, messages=9, refuses=True)


def page_of(found, fills=()):
    """The pages for people and for programs."""
    facts = Facts(now=1.0, version="1.0", overview=found, fills=list(fills))
    return text(facts), document(facts, [])


def restoring() -> Overview:
    found = Overview()
    found.restoring.take(7, RestoreStarted(reason="an import"))
    found.restoring.take(8, RestoreCompared(service="detector", restore=7))
    return found


def test_a_restore_that_is_not_compared_is_named():
    page, told = page_of(restoring())
    assert "Delivery: HELD" in page
    assert "missing: cluster_monitor, scheduler, override_renderer" in page
    assert "an import" in told["restore"]


def test_a_released_restore_holds_nothing():
    found = restoring()
    found.restoring.take(9, RestoreReleased(restore=7, by="admin"))
    page, told = page_of(found)
    assert "Delivery" not in page
    assert told["restore"] == ""


def test_a_stream_that_is_filling_is_named_with_the_remedy():
    page, told = page_of(Overview(), [FULL])
    assert "stream FACTS holds 800 of 1024 MiB (78%) and refuses writes" in page
    assert "FLEETLOG_TOPOLOGY_BYTES=FACTS" in page
    assert told["filling"] == [{"stream": "FACTS", "bytes": 800 << 20, "limit": 1024 << 20}]
