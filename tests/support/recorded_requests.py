"""Requests that a Kubernetes API server answered, sent again, and what is different in the answers.

A scenario is `{id, topic, setup, steps, cleanup}`; its steps are requests with the answers. Texts may hold
placeholders: `$ID` is of one run, `$UID1`, `$RV1` and the like stand for one value wherever they occur, `$TIME` and
`$ANY` for any.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import secrets
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
from yarl import URL

from tests.support.waiting import eventually

Scenario = dict[str, Any]

_FORMS: Final = {
    "ANY": r"[\s\S]*",
    "TIME": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "UID": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "RV": r"\d+",
    "LRV": r"\d+",
    "IP": r"\d+\.\d+\.\d+\.\d+",
    "PORT": r"\d+",
}
_FREE: Final = frozenset({"ANY", "TIME", "LRV"})
_PLACEHOLDER: Final = re.compile(r"\$(ID|TIME|ANY|(?:UID|L?RV|IP|PORT)\d+)")
_OF_SERVERS: Final = frozenset({"selfLink", "storageVersionHash", "managedFields"})
_MERGE: Final = {"Content-Type": "application/merge-patch+json"}


def scenarios(path: Path) -> list[Scenario]:
    """The scenarios of a file, one on each line."""
    return [msgspec.json.decode(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


class Different(Exception):
    """An answer that is not as recorded; the text says where."""


class Replay:
    """One run of one scenario, as a user with all rights."""

    def __init__(self, session: aiohttp.ClientSession, url: str, scenario: Scenario) -> None:
        self._session = session
        self._url = url
        self._scenario = scenario
        self._known = {"ID": f"r{secrets.token_hex(3)}"}

    async def problem(self) -> str:
        """What is different first; empty where nothing is."""
        try:
            for step in self._scenario.get("setup") or ():
                await self._step(step, checked=False)
            for step in self._scenario["steps"]:
                await self._step(step, checked=True)
        except Different as error:
            return str(error)
        finally:
            for path in self._scenario["cleanup"]:
                await self._remove(self._filled(path))
        return ""

    async def _send(self, step: dict[str, Any]) -> tuple[int, str, str, list[str]]:
        headers = {"Accept": "application/json", "Content-Type": "application/json"} | (step.get("headers") or {})
        body: bytes | None = None
        if "rawBody" in step:
            body = self._filled(step["rawBody"]).encode()
        elif "body" in step:
            body = msgspec.json.encode(self._filled(step["body"]))
        kept = {key: self._filled(value) for key, value in headers.items() if value is not None}
        if body is None:
            kept.pop("Content-Type", None)
        url = URL(self._url + self._filled(step["path"]), encoded=True)
        bare = () if "Content-Type" in kept else ("Content-Type",)
        async with self._session.request(
            step["method"], url, data=body, headers=kept, skip_auto_headers=bare, allow_redirects=False
        ) as answer:
            media = answer.headers.get("Content-Type", "").partition(";")[0]
            return answer.status, await answer.text(errors="replace"), media, answer.headers.getall("Warning", [])

    async def _step(self, step: dict[str, Any], *, checked: bool) -> None:
        match step.get("op"):
            case "sleep":
                return  # Whoever needs what takes time here waits for it in the next step.
            case "wait":
                await self._wait(step)
                return
        status, text, media, warnings = await self._send(step)
        place = f"{step['method']} {step['path']}"
        if not checked:
            if status >= 300:
                raise Different(f"{place}: {status} {text[:300]}")
            return
        if status != step["status"]:
            raise Different(f"{place}: {status} and not {step['status']}: {text[:300]}")
        if step.get("contentType", media) != media:
            raise Different(f"{place}: {media} and not {step['contentType']}")
        if "warnings" in step:
            self._compare(step["warnings"], warnings, f"{place} warnings", some=False)
        if "response" in step and media != "application/yaml":
            found = msgspec.json.decode(text) if text.startswith(("{", "[")) else text
            self._compare(step["response"], found, place, some=step.get("match") == "subset")

    async def _wait(self, step: dict[str, Any]) -> None:
        until = step["until"]

        async def look() -> bool:
            status, text, _, _ = await self._send({"method": "GET", "path": step["path"]})
            if "field" not in until:
                return bool(status == until["status"])
            return status == 200 and str(_at(msgspec.json.decode(text), until["field"])) == str(until["value"])

        await eventually(look, f"{step['path']} comes to {until}")

    async def _remove(self, path: str) -> None:
        """Delete an object or a collection, whatever its finalizers."""
        status, text, _, _ = await self._send({"method": "GET", "path": path})
        if status != 200:
            return
        found = msgspec.json.decode(text)
        for item in found.get("items", [found]):
            where = f"{path}/{item['metadata']['name']}" if "items" in found else path
            await self._send({"method": "DELETE", "path": f"{where}?gracePeriodSeconds=0"})
            if item.get("kind") == "Namespace":
                empty = {**item, "spec": {"finalizers": []}}
                empty["metadata"].pop("resourceVersion", None)
                await self._send({"method": "PUT", "path": f"{where}/finalize", "body": empty})
            elif item["metadata"].get("finalizers"):
                body = {"metadata": {"finalizers": None}}
                await self._send({"method": "PATCH", "path": where, "headers": _MERGE, "body": body})

    # -- texts

    def _filled(self, value: Any) -> Any:
        """The value with what placeholders in its texts stand for."""
        if isinstance(value, str):
            if value.startswith("$PORT") and value[1:] in self._known:
                return int(self._known[value[1:]])
            return _PLACEHOLDER.sub(lambda found: self._known.get(found[1], found[0]), value)
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        if isinstance(value, dict):
            return {self._filled(key): self._filled(item) for key, item in value.items()}
        return value

    def _fits(self, wanted: str, found: str) -> bool:
        """Whether a text is as recorded; placeholders in it stand for what is there from now on."""
        pattern, names, end = "", list[str](), 0
        for place in _PLACEHOLDER.finditer(wanted):
            name = place[1]
            form = name.rstrip("0123456789")
            pattern += re.escape(wanted[end : place.start()])
            end = place.end()
            if name in self._known and form not in _FREE:
                pattern += re.escape(self._known[name])
            else:
                names.append(name)
                pattern += f"({_FORMS[form]})"
        met = re.fullmatch(pattern + re.escape(wanted[end:]), found)
        if met is None:
            return False
        for name, value in zip(names, met.groups(), strict=True):
            if name.rstrip("0123456789") not in _FREE and self._known.setdefault(name, value) != value:
                return False
        return True

    def _compare(self, wanted: Any, found: Any, place: str, *, some: bool) -> None:
        """Raise Different where an answer is not as recorded; `some`: it may hold more."""
        if wanted == "$ANY":
            return
        if isinstance(wanted, dict) and isinstance(found, dict):
            filled = {self._filled(key): value for key, value in wanted.items() if key not in _OF_SERVERS}
            more = () if some else found.keys() - filled.keys() - _OF_SERVERS
            if more or filled.keys() - found.keys():
                raise Different(f"{place}: more {sorted(more)}, less {sorted(filled.keys() - found.keys())}")
            for key in sorted(filled):
                self._compare(filled[key], found[key], f"{place}.{key}", some=some)
        elif isinstance(wanted, list) and isinstance(found, list):
            self._compare_lists(wanted, found, place, some=some)
        elif isinstance(wanted, str):
            number = wanted.startswith("$PORT") and isinstance(found, int)
            if not isinstance(found, str) and not number:
                raise Different(f"{place}: {found!r} and not {wanted!r}")
            if not self._fits(wanted, str(found)):
                raise Different(f"{place}: {found!r} and not {self._filled(wanted)!r}")
        elif isinstance(wanted, bool) != isinstance(found, bool) or wanted != found:
            raise Different(f"{place}: {found!r} and not {wanted!r}")

    def _compare_lists(self, wanted: list[Any], found: list[Any], place: str, *, some: bool) -> None:
        if some:
            for item in wanted:
                if not any(self._is_like(item, one) for one in found):
                    raise Different(f"{place}: nothing like {item!r}")
            return
        if place.endswith(".causes"):
            wanted, found = sorted(wanted, key=_cause), sorted(found, key=_cause)
        if len(wanted) != len(found):
            raise Different(f"{place}: {len(found)} items and not {len(wanted)}: {found!r}"[:600])
        for index, (item, one) in enumerate(zip(wanted, found, strict=True)):
            self._compare(item, one, f"{place}[{index}]", some=False)

    def _is_like(self, wanted: Any, found: Any) -> bool:
        known = dict(self._known)
        try:
            self._compare(wanted, found, "", some=True)
        except Different:
            self._known = known
            return False
        return True


def _cause(cause: dict[str, str]) -> tuple[str, str]:
    # Their order is no contract, and their texts are not recorded.
    return cause.get("field", ""), cause.get("reason", "")


def _at(value: Any, path: str) -> Any:
    """What is at a path such as `a.b[type=X].c`; None where nothing is."""
    for name, key, wanted in re.findall(r"([^.\[\]]+)|\[([^=\]]*)=([^\]]*)\]", path):
        if name:
            value = value.get(name) if isinstance(value, dict) else None
        else:
            value = next((item for item in value or () if str(item.get(key)) == wanted), None)
    return value


async def problems(session: aiohttp.ClientSession, url: str, found: list[Scenario]) -> dict[str, str]:
    """What is different in each scenario in which something is, by its id."""
    told = {}
    for scenario in found:
        async with asyncio.timeout(60):
            if problem := await Replay(session, url, scenario).problem():
                told[scenario["id"]] = problem
    return told
