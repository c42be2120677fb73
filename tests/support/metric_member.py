"""A member that answers questions about metrics as a test says, and writes down who asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from aiohttp import web

USAGE: Final = "metrics.k8s.io/v1beta1"
CUSTOM: Final = "custom.metrics.k8s.io"
EXTERNAL: Final = "external.metrics.k8s.io/v1beta1"
AT: Final = "2026-01-01T00:00:00Z"


class MetricMember:
    """`answers` are bodies (or objects) by path; any other path is 404. `hangs`: none is answered any more."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.status = 200
        self.hangs = False
        self.heard: list[web.Request] = []
        self.url = ""
        self._free = asyncio.Event()

    def usage(self, *pods: dict[str, Any], namespace: str = "default") -> None:
        """Answer for all pods, and for those of a namespace, with these."""
        body = {"kind": "PodMetricsList", "apiVersion": USAGE, "metadata": {}, "items": list(pods)}
        self.answers[f"/apis/{USAGE}/pods"] = body
        self.answers[f"/apis/{USAGE}/namespaces/{namespace}/pods"] = body
        for one in pods:
            self.answers[f"/apis/{USAGE}/namespaces/{namespace}/pods/{one['metadata']['name']}"] = one

    def custom(self, path: str, version: str, *items: dict[str, Any]) -> None:
        """Answer a question about a custom metric in one version."""
        self.serves(f"{CUSTOM}/{version}", "pods/hits")
        body = {"kind": "MetricValueList", "apiVersion": f"{CUSTOM}/{version}", "metadata": {}, "items": list(items)}
        self.answers[f"/apis/{CUSTOM}/{version}/{path}"] = body

    def external(self, metric: str, *items: dict[str, Any]) -> None:
        """Answer a question about an external metric."""
        self.serves(EXTERNAL, metric)
        body = {"kind": "ExternalMetricValueList", "apiVersion": EXTERNAL, "metadata": {}, "items": list(items)}
        self.answers[f"/apis/{EXTERNAL}/namespaces/default/{metric}"] = body

    def serves(self, group_version: str, *names: str) -> None:
        """List metrics."""
        resources = [{"name": name, "namespaced": True, "kind": "MetricValueList", "verbs": ["get"]} for name in names]
        self.answers[f"/apis/{group_version}"] = {"kind": "APIResourceList", "resources": resources}

    async def handle(self, request: web.Request) -> web.Response:
        self.heard.append(request)
        if self.hangs:
            await self._free.wait()
        found = self.answers.get(request.path)
        if found is None:
            return web.Response(status=404, text="404 page not found")
        body = found if isinstance(found, bytes) else msgspec.json.encode(found)
        return web.Response(status=self.status, body=body, content_type="application/json")

    def close(self) -> None:
        self._free.set()


@asynccontextmanager
async def metric_member() -> AsyncIterator[MetricMember]:
    """One that runs."""
    member = MetricMember()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", member.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    member.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield member
    finally:
        member.close()
        await runner.cleanup()


def pod_usage(name: str, cpu: str = "10m", namespace: str = "default") -> dict[str, Any]:
    """PodMetrics of one container."""
    return {
        "metadata": {"name": name, "namespace": namespace},
        "timestamp": AT,
        "window": "15s",
        "containers": [{"name": "c", "usage": {"cpu": cpu, "memory": "1Mi"}}],
    }


def older_value(name: str, value: str) -> dict[str, Any]:
    """A MetricValue of v1beta1."""
    described = {"kind": "Pod", "namespace": "default", "name": name, "apiVersion": "v1"}
    return {"describedObject": described, "metricName": "hits", "timestamp": AT, "window": 15, "value": value}


def newer_value(name: str, value: str) -> dict[str, Any]:
    """A MetricValue of v1beta2."""
    described = {"kind": "Pod", "namespace": "default", "name": name, "apiVersion": "v1"}
    return {
        "describedObject": described,
        "metric": {"name": "hits"},
        "timestamp": AT,
        "windowSeconds": 30,
        "value": value,
    }


def external_value(metric: str, value: str, **labels: str) -> dict[str, Any]:
    """An ExternalMetricValue."""
    return {"metricName": metric, "metricLabels": labels, "timestamp": AT, "value": value}
