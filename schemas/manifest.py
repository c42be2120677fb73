"""A Kubernetes object as decoded JSON."""

from typing import Any

Manifest = dict[str, Any]
