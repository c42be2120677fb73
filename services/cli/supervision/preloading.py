"""Loads what the processes of an installation share before they are forked, so that its pages stay shared."""

from __future__ import annotations

import ctypes
import gc
import importlib
import sys
from collections.abc import Sequence
from typing import Final

from services._kit.concurrency.event_loop import GC_THRESHOLDS
from services._kit.kube.client_core import client_core

PRELOADED: Final = (
    "aiohttp.web",
    "cryptography.hazmat.primitives.asymmetric.ec",
    "cryptography.hazmat.primitives.serialization",
    "cryptography.x509",
    "encodings.idna",
    "msgspec.json",
    "nats",
    "prometheus_client",
    "structlog",
    "uvloop",
    "schemas.codec",
    "services._kit.runtime.service_wiring",
    "services._kit.kube.client",
    "services.agent.app",
    "services.apiserver.kinds.kind_catalog",
    "services.apiserver.server",
    "services.apiserver.store.jetstream_store",
    "services.cli.installation.process_groups",
    "services.cluster_monitor.app",
    "services.detector.app",
    "services.estimator.app",
    "services.executor.app",
    "services.failover.app",
    "services.gateway.app",
    "services.janitor.app",
    "services.member_sim.app",
    "services.override_renderer.app",
    "services.registrar.app",
    "services.scheduler.app",
    "services.status_aggregator.app",
)

_M_ARENA_MAX: Final = -8
_M_MMAP_THRESHOLD: Final = -3
_LARGE: Final = 128 << 10
_BYTES_OVERHEAD: Final = sys.getsizeof(b"")
_SMALL: Final = range(48, 513, 16)
"""Sizes that Python's own allocator serves from pools of equal blocks."""
_GAPS: Final = 1000
"""Blocks of one size that are free after the imports, at most."""
_filling: Final[list[bytes]] = []


def preload(modules: Sequence[str] = PRELOADED) -> None:
    """Import what every process needs, and hide it from the garbage collector and the allocators of its children.

    Whatever a child writes to, a reference count or a gap between two objects, becomes a page of its own.
    """
    # Collections on the way would tear gaps.
    gc.disable()
    for module in modules:
        importlib.import_module(module)
    client_core()
    # Its tables are the same in every API server.
    importlib.import_module("services.apiserver.kinds.kind_catalog").builtin_registry()
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    _fill_gaps()


def _fill_gaps() -> None:
    """Make children allocate side by side on new pages instead of in the gaps that imports left on shared ones."""
    _filling.extend(bytes(size - _BYTES_OVERHEAD) for size in _SMALL for _ in range(_GAPS))
    try:
        libc = ctypes.CDLL(None)
        # Arenas of threads that come and go, and large blocks kept for later, are memory that nothing uses.
        libc.mallopt(_M_ARENA_MAX, 1)
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE)
        libc.malloc_trim(0)
    except (OSError, AttributeError):
        return  # Another C library has no such settings.
