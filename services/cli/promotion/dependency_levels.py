"""Asks interpreters what an object needs beside it, the strongest first, as the services do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from schemas.manifest import Manifest
from services._kit.interpretation.interpreter_levels import Level, ScriptLevel
from services._kit.interpretation.lua.pool import LuaPool
from services._kit.interpretation.webhook_client import WebhookLevel
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._rules.interpreter import NativeInterpreter, Operation
from services._rules.interpreter.common.interpretation import target_of
from services._rules.interpreter.configuration import customization_problem
from services._rules.interpreter.scripts.bundled import Shipped
from services._rules.interpreter.scripts.customizations import Customizations
from services.cli.common.running import complain

_CONFIG: Final = "config.karmada.io", "v1alpha1"


class DependencyLevels:
    """The interpreters of a control plane, and the product's own."""

    def __init__(self, levels: list[tuple[str, Level]]) -> None:
        self._levels = levels
        self._native = NativeInterpreter()

    async def dependencies_of(self, found: Manifest) -> tuple[str, list[dict[str, Any]]] | None:
        """Which interpreter answered, and what the object needs; None where none knows its kind.

        Raises InterpretError.
        """
        target = target_of(found)
        for name, level in self._levels:
            if level.hook_enabled(*target, Operation.DEPENDENCY):
                return name, list(await level.call(Operation.DEPENDENCY, (found,)) or ())
        if self._native.hook_enabled(*target, Operation.DEPENDENCY):
            return "default interpreter", list(self._native.interpret(Operation.DEPENDENCY, found) or ())
        return None


@asynccontextmanager
async def open_levels(control: KubeClient) -> AsyncIterator[DependencyLevels]:
    """The interpreters as the control plane has them configured now; closed afterwards."""
    pool, webhooks = LuaPool(1), WebhookLevel()
    webhooks.reach_services(control)
    customizations = [
        item
        for item in await _configured(control, "resourceinterpretercustomizations")
        if customization_problem(item) is None
    ]
    configurations = await _configured(control, "resourceinterpreterwebhookconfigurations")
    webhooks.replace({str(item["metadata"]["name"]): item for item in configurations})
    try:
        yield DependencyLevels(
            [
                ("configurable interpreter", ScriptLevel(pool, Customizations(customizations))),
                ("customized interpreter", webhooks),
                ("third-party interpreter", ScriptLevel(pool, Shipped())),
            ]
        )
    finally:
        await webhooks.close()
        await pool.close()


async def _configured(control: KubeClient, plural: str) -> list[Manifest]:
    try:
        return list((await control.get(resource_path(*_CONFIG, plural))).get("items") or ())
    except ApiError as error:
        if error.status not in (403, 404):
            raise
        complain(f"warning: {plural} cannot be read and do not count: {error.message or error}")
        return []
