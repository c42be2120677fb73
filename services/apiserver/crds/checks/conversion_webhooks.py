"""Checks how a definition has its objects converted: the strategy, and the webhook that converts."""

import base64
import binascii
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    forbidden,
    go_strings,
    invalid,
    not_supported,
    required,
)

REVIEW_VERSIONS: Final = ("v1", "v1beta1")
"""Versions of ConversionReview that are understood."""
_STRATEGIES: Final = ("None", "Webhook")
_CLIENT: Final = "spec.conversion.webhookClientConfig"
_REVIEWS: Final = "spec.conversion.conversionReviewVersions"


def check_conversion(conversion: Manifest, *, known_reviews: bool, sound_bundle: bool) -> Iterator[FieldError]:
    """Yield what is wrong with the conversion of a definition in v1, under the names of its fields before v1.

    `known_reviews`: a version of ConversionReview must be known; `sound_bundle`: its certificates must be readable.
    """
    strategy, webhook = conversion.get("strategy", ""), conversion.get("webhook") or {}
    if not strategy:
        yield required("spec.conversion.strategy")
    elif strategy not in _STRATEGIES:
        yield not_supported("spec.conversion.strategy", strategy, _STRATEGIES)
    client, reviews = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        if client is not None:
            yield forbidden(_CLIENT, text)
        if reviews:
            yield forbidden(_REVIEWS, text)
        return
    yield from _client(client, sound_bundle=sound_bundle)
    yield from _reviews(reviews, known=known_reviews)


def _client(client: Manifest | None, *, sound_bundle: bool) -> Iterator[FieldError]:
    if client is None:
        yield required(_CLIENT, "required when strategy is set to Webhook")
        return
    url, service, bundle = client.get("url"), client.get("service"), client.get("caBundle")
    if (url is None) == (service is None):
        yield required(_CLIENT, "exactly one of url or service is required")
    elif url is not None:
        yield from _webhook_url(url, f"{_CLIENT}.url")
    elif service is not None:
        yield from _webhook_service(service, f"{_CLIENT}.service")
    if bundle and sound_bundle and not readable_bundle(bundle):
        text = "unable to load root certificates: unable to parse bytes as PEM block"
        yield invalid(f"{_CLIENT}.caBundle", bundle, text)


def _reviews(reviews: list[str], *, known: bool) -> Iterator[FieldError]:
    if not reviews:
        yield required(_REVIEWS)
        return
    for index, name in enumerate(reviews):
        if name in reviews[:index]:
            yield invalid(f"{_REVIEWS}[{index}]", name, "duplicate version")
        else:
            for text in names.dns1035(name):
                yield invalid(f"{_REVIEWS}[{index}]", name, text)
    if known and not any(name in REVIEW_VERSIONS for name in reviews):
        yield invalid(_REVIEWS, go_strings(reviews), f"must include at least one of {', '.join(REVIEW_VERSIONS)}")


def readable_bundle(bundle: str) -> bool:
    """Return whether a text in base64 holds certificates in PEM."""
    from cryptography import x509  # Few definitions have a bundle.

    try:
        return bool(x509.load_pem_x509_certificates(base64.b64decode(bundle)))
    except (binascii.Error, ValueError):
        return False


_URL_FORM: Final = "; desired format: https://host[/path]"


def _webhook_url(url: str, field: str) -> Iterator[FieldError]:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        yield required(field, f"url must be a valid URL: {error}{_URL_FORM}")
        return
    if parts.scheme != "https":
        yield invalid(field, parts.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}")
    if not parts.netloc:
        yield invalid(field, parts.netloc, f"host must be specified{_URL_FORM}")
    if "@" in parts.netloc:
        yield invalid(field, parts.netloc.rpartition("@")[0], "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(field, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(field, parts.query, "query parameters are not permitted in the URL")


def _webhook_service(service: Manifest, field: str) -> Iterator[FieldError]:
    for name in ("name", "namespace"):
        if not service.get(name):
            yield required(f"{field}.{name}", f"service {name} is required")
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        yield invalid(f"{field}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    path = service.get("path")
    if path in (None, "", "/"):
        return
    where = f"{field}.path"
    if path == "//":
        yield invalid(where, path, "segment[0] may not be empty")
        return
    if not path.startswith("/"):
        yield invalid(where, path, "must start with a '/'")
    segments = path.removeprefix("/").removesuffix("/").split("/")
    for index, segment in enumerate(segments):
        if not segment:
            yield invalid(where, path, f"segment[{index}] may not be empty")
        else:
            for text in names.subdomain(segment):
                yield invalid(where, path, f"segment[{index}]: {text}")
