"""The HTTPS server of reviews: bounds what comes in, asks decision and guard, and always answers with a reason."""

from __future__ import annotations

import asyncio
import ssl
import time
import uuid
from collections.abc import Callable
from typing import Final

import structlog
from aiohttp import web
from msgspec import structs

from services._kit.base import http_stop
from services._rules.admission import Admitted, Context, Denied
from services._rules.admission.webhook_table import (
    BINDING,
    COMPARED,
    CONVERSION_PATH,
    HOOKS,
    SECONDS_COMPARED,
    Hook,
)
from services._rules.admission.write_steps import Guard, Write
from services.webhook.decide import (
    Answer,
    Malformed,
    Outcome,
    Request,
    answer_of,
    conversion_document,
    decide,
    read_conversion,
    read_review,
    review_document,
    write_of,
)
from services.webhook.metrics import WebhookMetrics
from services.webhook.stored_objects import StoredObjects

_CLOSING_SECONDS: Final = 5.0
"""How long answers under way may take once the server stops."""
_JSON: Final = "application/json"
_VERBS: Final = frozenset({"CREATE", "UPDATE", "DELETE"})


class ReviewServer:
    """Listens until it is stopped; `port` is known after `start`.

    `standing` is what the settings say of every context, `quotas` whether bindings are checked against quotas.
    """

    def __init__(
        self,
        stored: StoredObjects,
        standing: Context,
        now: Callable[[], str],
        *,
        quotas: bool = False,
        guard: Guard | None = None,
        max_body_bytes: int = 16 << 20,
        max_requests: int = 128,
    ) -> None:
        self.port = 0
        self.metrics: WebhookMetrics | None = None
        self._stored = stored
        self._standing = standing
        self._now = now
        self._quotas = quotas
        self._guard = guard
        self._max_body_bytes = max_body_bytes
        self._max_requests = max_requests
        self._log = structlog.get_logger(__name__)
        self._runner: web.AppRunner | None = None
        self._underway = http_stop.Underway()

    @property
    def running(self) -> int:
        """Reviews that are being answered."""
        return self._underway.count

    async def start(self, host: str, port: int, context: ssl.SSLContext) -> None:
        """Listen; raises OSError when the port is taken."""
        app = web.Application(client_max_size=self._max_body_bytes)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CLOSING_SECONDS)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port, ssl_context=context).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening, and finish what is being answered."""
        if self._runner is not None:
            await http_stop.stop(self._runner, self._underway, _CLOSING_SECONDS)
            self._runner = None

    async def _serve(self, request: web.Request) -> web.Response:
        hook = HOOKS.get(request.path)
        if hook is None and request.path != CONVERSION_PATH:
            return _text(404, f"no webhook answers at {request.path[:200]}; `fleetlog crds print` shows the paths")
        if request.method != "POST":
            return _text(405, f"{request.path} takes POST only")
        kind = hook.kind if hook is not None else "Conversion"
        if self.running >= self._max_requests:
            self._count(kind, "", "busy")
            return _text(429, f"{self._max_requests} reviews are being answered; try again", {"Retry-After": "1"})
        began = time.perf_counter()
        try:
            with self._underway:
                return await self._within(hook, request)
        except Malformed as problem:
            self._count(kind, "", "malformed")
            return _text(400, str(problem))
        except TimeoutError:
            self._count(kind, "", "late")
            return _text(504, "the review could not be read and answered in time; try again")
        finally:
            if self.metrics is not None:
                self.metrics.seconds.labels(kind).observe(time.perf_counter() - began)

    async def _within(self, hook: Hook | None, request: web.Request) -> web.Response:
        """The answer within the time that the caller waits; raises TimeoutError."""
        async with asyncio.timeout(hook.seconds if hook is not None else SECONDS_COMPARED):
            body = await self._body(request)
            return await self._review(hook, body) if hook is not None else self._convert(body)

    async def _body(self, request: web.Request) -> bytes:
        try:
            return await request.read()
        except web.HTTPRequestEntityTooLarge:
            raise Malformed(
                f"the body has more than {self._max_body_bytes} bytes; FLEETLOG_MAX_BODY_BYTES sets the limit"
            ) from None

    async def _review(self, hook: Hook, body: bytes) -> web.Response:
        asked = read_review(body)
        answer = await self._answer(hook, asked)
        self._count(hook.kind, asked.operation, answer.outcome)
        if answer.refused is not None:
            self._log.info(
                "refused",
                kind=asked.kind.kind,
                namespace=asked.namespace,
                name=asked.name,
                verb=asked.operation,
                code=answer.refused["code"],
                webhook=hook.name,
            )
        return web.Response(body=review_document(asked.uid, answer), content_type=_JSON)

    async def _answer(self, hook: Hook, asked: Request) -> Answer:
        """The answer to a review; a fault of ours is one, too, and lets nothing pass."""
        write: Write | None = None
        try:
            found = write_of(hook, asked)
            if isinstance(found, Denied):
                return answer_of(asked, None, found)
            write = found
            return answer_of(asked, write, await self._decided(hook, write))
        except RecursionError:
            return answer_of(asked, write, Denied("decode", 400, "the object is nested too deep: make it flatter"))
        except TimeoutError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer and others go on
            self._log.exception("review failed", webhook=hook.name, name=asked.name, namespace=asked.namespace)
            text = f"the rules failed on this object ({type(error).__name__}): a fault of the webhook, see its log"
            return answer_of(asked, write, Denied(hook.step, 500, text))

    async def _decided(self, hook: Hook, write: Write) -> Admitted | Denied:
        context = structs.replace(
            self._standing, namespace=write.namespace, identity=str(uuid.uuid4()), now=self._now()
        )
        if hook.kind == COMPARED and write.concerned:
            existing = await self._stored.customizations()
            if isinstance(existing, Denied):
                return existing
            context = structs.replace(context, existing=existing)
        decision = decide(hook, write, context)
        if isinstance(decision, Denied) or hook.step != "validating":
            return decision
        refused: Denied | None = None
        if hook.kind == BINDING and self._quotas and write.concerned:
            refused = await self._stored.use_quotas(write)
        elif hook.kind == write.kind and write.guarded and self._guard is not None:
            refused = await self._guard(write)
        return refused or decision

    def _convert(self, body: bytes) -> web.Response:
        conversion = read_conversion(body)
        document, outcome = conversion_document(conversion)
        self._count("Conversion", "", outcome)
        return web.Response(body=document, content_type=_JSON)

    def _count(self, kind: str, verb: str, outcome: Outcome | str) -> None:
        if self.metrics is not None:
            self.metrics.reviews.labels(kind, verb if verb in _VERBS else "", outcome).inc()


def _text(code: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(status=code, text=text, headers=headers)
