"""Sends requests that schemathesis makes from the OpenAPI documents that the server publishes."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.findings import Raw, Watcher

_AT_ONCE = 8
_LARGEST = 400_000


def send_published(watcher: Watcher, seconds: float, first_seed: int) -> int:
    """Send requests for one operation after the other until the time is over; how many operations. Raises Finding."""
    end = time.monotonic() + seconds
    chance = random.Random(first_seed)
    code, index = watcher.server.send("GET", "/openapi/v3", user="root")
    assert code == 200, index
    paths = list(index["paths"].values())
    done = 0
    while time.monotonic() < end:
        chance.shuffle(paths)
        for path in paths:
            code, document = watcher.server.send("GET", path["serverRelativeURL"], user="root")
            if code == 404:
                # A definition was deleted by a request before this one: then the index has no such document, either.
                index = watcher.server.send("GET", "/openapi/v3", user="root")[1]
                assert path["serverRelativeURL"] not in {one["serverRelativeURL"] for one in index["paths"].values()}
                continue
            assert code == 200, document
            operations = [found.ok() for found in schemathesis.openapi.from_dict(document).get_all_operations()]
            chance.shuffle(operations)
            for operation in operations[:10]:
                if time.monotonic() >= end:
                    return done
                _round(watcher, operation, first_seed + done, end)
                done += 1
    return done


def _round(watcher: Watcher, operation: Any, number: int, end: float) -> None:
    @seed(number)
    @settings(
        max_examples=_AT_ONCE,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy())
    def each(case: Any) -> None:
        if time.monotonic() < end:
            watcher.send(_raw(case))

    try:
        each()
    except Exception as error:
        error.add_note(f"seed: {number}, operation: {operation.label}")
        raise


def _raw(case: Any) -> Raw:
    """A case as bytes; a body is JSON, patches included."""
    prepared = case.as_transport_kwargs(base_url="http://localhost")
    import requests

    made = requests.Request(
        **{k: v for k, v in prepared.items() if k in ("method", "url", "params", "json", "headers")}
    )
    sent = made.prepare()
    target = (sent.path_url or "/").encode("latin-1", "replace")
    body = sent.body
    if isinstance(body, str):
        body = body.encode()
    if body is None and case.method.upper() in ("POST", "PUT", "PATCH") and case.body is not None:
        try:
            body = json.dumps(case.body).encode()
        except (TypeError, ValueError):
            body = b""
    headers = [(b"Authorization", b"Bearer mallory")]
    if body is not None:
        headers.append((b"Content-Type", str(case.media_type or "application/json").encode("latin-1", "replace")))
    return Raw(case.method.upper(), target, headers, body[:_LARGEST] if body is not None else None)
