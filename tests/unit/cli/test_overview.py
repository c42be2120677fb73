"""`fleetlog status` names what waits: a restore that is not compared, and a stream that is filling."""

from __future__ import annotations

from schemas.events.restore import RestoreCompared, RestoreReleased, RestoreStarted
from services._rules.log.stream_limits import Fill
from services.cli.overview.status_command import document, text
from services.cli.overview.status_facts import Overview

FULL = Fill(stream="FACTS", bytes=800 << 20, most=1024 << 20, messages=9, refuses=True)


def restoring() -> Overview:
    found = Overview()
    found.restoring.take(7, RestoreStarted(reason="an import"))
    found.restoring.take(8, RestoreCompared(service="detector", restore=7))
    return found


def test_a_restore_that_is_not_compared_is_named():
    page = text(restoring(), {})
    assert "Delivery: HELD" in page
    assert "missing: cluster_monitor, scheduler, override_renderer" in page
    assert "an import" in document(restoring(), {})["restore"]


def test_a_released_restore_holds_nothing():
    found = restoring()
    found.restoring.take(9, RestoreReleased(restore=7, by="admin"))
    assert "Delivery" not in text(found, {})
    assert document(found, {})["restore"] == ""


def test_a_stream_that_is_filling_is_named_with_the_remedy():
    page = text(Overview(), {}, [FULL])
    assert "stream FACTS holds 800 of 1024 MiB (78%) and refuses writes" in page
    assert "FLEETLOG_TOPOLOGY_BYTES=FACTS" in page
    assert document(Overview(), {}, [FULL])["filling"] == [{"stream": "FACTS", "bytes": 800 << 20, "limit": 1024 << 20}]
