"""Strategies of wild requests: paths, queries, headers, and bodies in JSON, YAML, protobuf and all kinds of patches."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from random import Random
from typing import Any, Final
from urllib.parse import quote

import yaml
from hypothesis import strategies as st

from services.apiserver.kinds.decoding import field_tables
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.kinds.kind_model import Kind
from tests.fuzz.findings import Raw

_KINDS: Final[list[Kind]] = [
    kind
    for group, version, _, _ in builtin_registry().group_versions()
    for kind in builtin_registry().in_group_version(group, version)
]
_USUAL: Final = [
    kind
    for kind in _KINDS
    if kind.resource.plural
    in (
        *(
            "pods",
            "configmaps",
            "secrets",
            "services",
            "deployments",
            "statefulsets",
            "jobs",
            "nodes",
            "leases",
            "roles",
        ),
        *("horizontalpodautoscalers", "networkpolicies", "customresourcedefinitions", "persistentvolumeclaims"),
    )
]
"""Kinds of which objects are there."""
_NAMES: Final = ("a", "b", "c", "default", "kube-system", "x.y", "A_b", "-", "..", "%", "a" * 254, "é", "*", "")
_WORDS: Final = (
    *("a", "b", "v1", "Pod", "Always", "TCP", "Never", "100m", "1Gi", "-1", "5%", "a=b", "a/b", "0.0.0.0", "::1", "*"),
    *("10.0.0.0/8", "2024-01-01T00:00:00Z", "30s", "* * * * *", "$patch", "\x00", "\ud83d\ude00", "é", "", " ", "\n"),
    *("{.metadata.name}", "(a+)+$", "[", "system:masters", "https://127.0.0.1:1/x", "{}", "null", "self.a > 1"),
)
_NUMBERS: Final = (0, 1, -1, 3, 80, 65536, 2**31, -(2**31) - 1, 2**63, -(2**63) - 1, 10**30, 0.5, 1e300, -0.0)
_MEDIA: Final = (
    *("application/json", "application/json", "application/json", "application/yaml"),
    *("application/vnd.kubernetes.protobuf", "text/plain", "", ";;;", "application/json; charset=x", "\xff"),
)
_PATCHES: Final = (
    *("application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"),
    "application/apply-patch+yaml",
)
_ACCEPT: Final = (
    *("*/*", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "text/html", ";q=x", ",,,"),
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=Nothing;v=v9",
    "\xe9",
)
_PARAMETERS: Final = (
    *("limit", "continue", "resourceVersion", "resourceVersionMatch", "labelSelector", "fieldSelector", "dryRun"),
    *("fieldManager", "fieldValidation", "force", "pretty", "timeout", "timeoutSeconds", "gracePeriodSeconds"),
    *(
        "propagationPolicy",
        "orphanDependents",
        "includeObject",
        "allowWatchBookmarks",
        "sendInitialEvents",
        "container",
    ),
)
_VALUES: Final = (
    *(
        "",
        "0",
        "1",
        "-1",
        "99999999999999999999",
        "true",
        "All",
        "Strict",
        "Warn",
        "a",
        "a=b",
        "a in (b,c)",
        "a!=",
        "!a",
    ),
    *(
        "metadata.name=a",
        "status.phase=x",
        "x=y,",
        "Exact",
        "NotOlderThan",
        "Foreground",
        "1s",
        "-5m",
        "é",
        "%00",
        "%zz",
    ),
    *("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0", "None", "(", "x" * 300, "None", "null"),
)
_OPERATIONS: Final = ("add", "remove", "replace", "move", "copy", "test", "nothing")
_POINTERS: Final = ("", "/", "/metadata", "/metadata/labels/a", "/spec", "/spec/containers/0", "/spec/-", "/a~2b", "x")
_DIRECTIVES: Final = ("$patch", "$retainKeys", "$deleteFromPrimitiveList/finalizers", "$setElementOrder/containers")
_MOST_DEPTH: Final = 6


class _Maker:
    """Makes one request from a source of chance."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._odd = random.choice(("body", "body", "body", "body", "query", "headers", "path", "all"))
        """Which part of the request is odd; a request that is odd in all of them gets no further than the first."""
        self._wrong = random.choice((0.0, 0.0, 0.01, 0.05)) if self._odd == "body" else 0.0
        """How often a value is of another type than its field."""
        self._sparse = random.choice((0.05, 0.2, 0.5))
        """How often a field that may be left out is there."""

    def odd(self, part: str, chance: float = 1.0) -> bool:
        """Whether a part is odd this time."""
        return self._odd in (part, "all") and self.random.random() < chance

    def any_value(self, depth: int = 0) -> Any:
        """Some JSON value."""
        kind = self.random.randrange(9 if depth < 3 else 6)
        match kind:
            case 0:
                return None
            case 1:
                return self.random.random() < 0.5
            case 2 | 3:
                return self.random.choice(_NUMBERS)
            case 4 | 5:
                return self.random.choice(_WORDS)
            case 6:
                return [self.any_value(depth + 1) for _ in range(self.random.randrange(4))]
            case _:
                names = (*_WORDS, "name", "metadata", "spec", *_DIRECTIVES)
                return {self.random.choice(names): self.any_value(depth + 1) for _ in range(self.random.randrange(4))}

    def of_field(self, field: field_tables.Field, depth: int) -> Any:
        """A value of a field, now and then one of another type."""
        if self.random.random() < self._wrong:
            return self.any_value()
        if field.ref and field_tables.is_known(field.ref):
            return self.of_type(field.ref, depth + 1)
        if field.element is not None and field.code == "[":
            return [self.of_field(field.element, depth) for _ in range(self.random.randrange(3))]
        if field.element is not None:
            return {self.random.choice(_WORDS): self.of_field(field.element, depth) for _ in range(2)}
        match field.code:
            case "i" | "l":
                return self.random.choice(_NUMBERS[:6])
            case "b":
                return self.random.random() < 0.5
            case _:
                return self.random.choice(_WORDS)

    def of_type(self, name: str, depth: int = 0) -> Any:
        """An object of a type with some of its fields."""
        if depth > _MOST_DEPTH:
            return {}
        found = {}
        chance = 0.7 if depth == 0 else self._sparse
        for field in field_tables.definition(name).fields.values():
            if field.required or self.random.random() < chance:
                found[field.name] = self.of_field(field, depth)
        return found

    def object(self, kind: Kind) -> Any:
        """An object of a kind, mostly with a usable name."""
        made = self.of_type(kind.schema_name) if field_tables.is_known(kind.schema_name) else {"spec": self.any_value()}
        if self.random.random() < 0.95:
            made |= {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
        if self.random.random() < 0.9:
            made["metadata"] = {"name": self.random.choice(_NAMES[:3]), "labels": {"a": "b"}}
        return made

    def operations(self) -> Any:
        """A JSON patch."""
        return [
            {
                "op": self.random.choice(_OPERATIONS),
                "path": self.random.choice(_POINTERS),
                "from": self.random.choice(_POINTERS),
                "value": self.any_value(),
            }
            for _ in range(self.random.randrange(4))
        ]

    def text(self, value: Any, media: str) -> bytes:
        """A value as a body of a media type, now and then broken."""
        raw: bytes
        if "protobuf" in media:
            raw = b"k8s\0" + self.random.randbytes(self.random.randrange(60))
        elif "yaml" in media and self.random.random() < 0.7:
            raw = yaml.safe_dump(json.loads(json.dumps(value)), allow_unicode=True).encode("utf-8", "replace")
        else:
            raw = json.dumps(value, ensure_ascii=self.random.random() < 0.95).encode("utf-8", "surrogatepass")
        if self.odd("body", 0.1):
            cut = self.random.randrange(len(raw) + 1)
            raw = raw[:cut] + self.random.randbytes(self.random.randrange(3)) + raw[cut + self.random.randrange(3) :]
        return raw

    def path(self, kind: Kind, *, named: bool) -> str:
        """A path of a kind, of all its objects or of one."""
        resource = kind.resource
        root = f"/apis/{resource.group}" if resource.group else "/api"
        path = f"{root}/{resource.version}"
        if resource.namespaced and not self.odd("path", 0.2):
            path += f"/namespaces/{self.random.choice(('default', 'none') if self.odd('path') else ('default',))}"
        path += f"/{resource.plural}"
        if named:
            path += "/" + quote(self.random.choice(_NAMES if self.odd("path") else _NAMES[:3]), safe="%*")
            subresources = [sub.name for sub in resource.subresources] + ["x", "log"] * self.odd("path")
            if subresources and self.random.random() < 0.15:
                path += f"/{self.random.choice(subresources)}"
        return path

    def odd_path(self) -> str:
        """A path outside of resources, or none."""
        return self.random.choice(
            (
                *("/", "/api", "/apis", "/version", "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", "/healthz"),
                *(
                    "/readyz?verbose",
                    "/metrics",
                    "/apis/apps",
                    "/apis/x/v1/y",
                    "/api/v1/%2e%2e/x",
                    "//",
                    "/%ff",
                    "/a?b=%",
                ),
                *("/apis/fleetlog.io/v1alpha1/changesets", "/api/v1/namespaces/default", "/api/v1/watch/pods"),
                *("/.well-known/openid-configuration", "/openid/v1/jwks", "/apis/apps/v1/namespaces/default"),
            )
        )

    def query(self) -> str:
        """Parameters, some of them with odd values."""
        if not self.odd("query"):
            return self.random.choice(("", "", "", "limit=1", "fieldManager=m&force=true", "fieldValidation=Strict"))
        chosen = [
            f"{self.random.choice(_PARAMETERS)}={quote(self.random.choice(_VALUES), safe='%')}"
            for _ in range(self.random.choice((1, 1, 2, 3)))
        ]
        return "&".join(chosen)

    def headers(self, media: str | None) -> list[tuple[bytes, bytes]]:
        """Header lines."""
        found = [(b"Authorization", self.random.choice((b"Bearer root", b"Bearer mallory", b"Bearer mallory")))]
        if media is not None:
            found.append((b"Content-Type", media.encode("latin-1", "replace")))
        if self.odd("headers") or self.random.random() < 0.1:
            found.append((b"Accept", self.random.choice(_ACCEPT).encode("latin-1", "replace")))
        if self.odd("headers", 0.4):
            name = self.random.choice((b"User-Agent", b"Impersonate-User", b"Authorization", b"X-Odd", b"If-Match"))
            found.append(
                (name, self.random.choice((b"\xe9\xff", b"x" * 5000, b"a, b", b"Basic eA==", b"system:masters")))
            )
        return found

    def request(self) -> Raw:
        """One request."""
        method = self.random.choice(
            ("GET", "POST", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE", "HEAD", "OPTIONS")
        )
        kind = self.random.choice(_KINDS)
        wanted = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(method, "get")
        if not self.odd("path"):
            usual = _USUAL if self.random.random() < 0.5 else _KINDS
            kind = self.random.choice([kind for kind in usual if wanted in kind.resource.verbs])
        named = self.random.random() < 0.5 if method == "GET" or self.odd("path") else method != "POST"
        path = self.odd_path() if self.odd("path", 0.3) else self.path(kind, named=named)
        query = self.query()
        target = path + (("&" if "?" in path else "?") + query if query else "")
        if method in ("GET", "HEAD", "OPTIONS"):
            return Raw(method, target.encode("latin-1", "replace"), self.headers(None), None)
        usual = ("application/json", "application/json", "application/yaml")
        media = self.random.choice(_MEDIA if self.odd("headers") else _PATCHES if method == "PATCH" else usual)
        value = self.operations() if "json-patch" in media else self.object(kind)
        if "json-patch" not in media and isinstance(value.get("metadata"), dict) and not self.odd("path"):
            value["metadata"]["name"] = path.split("?")[0].rstrip("/").rpartition("/")[2] if named else "c"
        if "merge-patch" in media and self.random.random() < 0.5:
            value = {"spec": value.get("spec"), **({"metadata": self.any_value()} if self.odd("body", 0.3) else {})}
        if self.odd("body", 0.1):
            value = self.any_value()
        if method == "DELETE":
            value = {"kind": "DeleteOptions", "preconditions": self.any_value(), "dryRun": self.any_value()}
        headers, body = self.headers(media), self.text(value, media)
        if self.odd("headers", 0.1):
            coding = self.random.choice((b"gzip", b"deflate", b"x"))
            headers.append((b"Content-Encoding", coding))
            body = gzip.compress(body) if self.random.random() < 0.5 else body
        return Raw(method, target.encode("latin-1", "replace"), headers, body)


def requests() -> st.SearchStrategy[Raw]:
    """Wild requests, each from a source of chance that hypothesis can shrink and repeat."""
    make: Callable[[Random], Raw] = lambda random: _Maker(random).request()  # noqa: E731
    return st.randoms(use_true_random=False).map(make)
