"""Writes to the status of ResourceRegistries which members forbid what they select."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial

import structlog

from services._kit.base.clock import Clock
from services._kit.concurrency.debounce import Debouncer
from services._kit.concurrency.keyed_work import Background
from services._kit.kube.api import PASSING
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._kit.kube.event_recorder import EventRecorder
from services.search.registries.member_facts import MemberFacts
from services.search.registries.refused_reads import Reading, Said, due, note_of, said_of, with_said
from services.search.registries.wanted_kinds import Registry

log = structlog.get_logger("search")


class _Retry(Exception):
    """A write that has to be repeated."""


class RegistryStatus:
    """Compares what registries say with what members refuse, once `changed` was called and a moment has passed.

    Several instances of search may see a member differently for a while: each writes what has changed for itself, and
    does not answer to what another one wrote.
    """

    def __init__(
        self,
        control: KubeClient,
        clock: Clock,
        registries: Callable[[], Mapping[str, Registry]],
        members: Callable[[], Iterable[MemberFacts]],
        readings: Callable[[], Mapping[str, Reading]],
    ) -> None:
        self._control = control
        self._clock = clock
        self._registries = registries
        self._members = members
        self._readings = readings
        self._recorder = EventRecorder(control, clock.now)
        self._writes: Background[str] = Background(concurrency=2, retry=(_Retry,))
        self._debouncer = Debouncer(self._compare)
        self._said: dict[str, Said] = {}
        """What this instance saw last, by uid of the registry."""

    def changed(self) -> None:
        """A member permits or forbids something, or registries are others."""
        self._debouncer.changed()

    async def close(self) -> None:
        """Drop what is not written yet."""
        self._debouncer.close()
        await self._writes.close()
        await self._recorder.drop()

    def _compare(self) -> None:
        registries, readings = self._registries(), self._readings()
        present = {registry.uid for registry in registries.values()}
        self._said = {uid: said for uid, said in self._said.items() if uid in present}
        refused = any(reading.refused for reading in readings.values())
        for registry in registries.values():
            live = said_of(registry.conditions)
            if not refused and live is None:
                continue
            said = due(registry, self._members(), readings)
            if said is None or said == self._said.get(registry.uid):
                continue
            self._said[registry.uid] = said
            if said != live:
                self._writes.submit(registry.name, partial(self._write, registry, said))

    async def _write(self, registry: Registry, said: Said) -> None:
        path = resource_path("search.karmada.io", "v1alpha1", "resourceregistries", "", registry.name, "status")
        now = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        # Only of this registry, not of one that was made under its name meanwhile.
        body = {"metadata": {"uid": registry.uid}, "status": {"conditions": with_said(registry.conditions, said, now)}}
        try:
            await self._control.patch(path, body)
        except Unreachable as error:
            raise _Retry(str(error)) from error
        except ApiError as error:
            if error.status in PASSING:
                raise _Retry(str(error)) from error
            if error.status not in (404, 409):
                log.warning("registry_status_not_written", registry=registry.name, reason=str(error))
            return
        self._recorder.tell(note_of(registry, said))
