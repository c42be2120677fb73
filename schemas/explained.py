"""Explanations of placements on stream EXPLAINED, beside the facts: at most 16 KiB each."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from schemas.keys import ObjectKey

MAX_BYTES: Final = 16 << 10
"""Bound of one encoded explanation; what does not fit is counted instead of named."""


class ExplainedCluster(Struct, frozen=True, omit_defaults=True):
    """One cluster that passed the filters: where it ranked and what it was given.

    `available` is how many further replicas fit, `room` the same with those already there (-1: nothing limits them);
    `source` names the estimator (`summary`, `nodes`, `agent`), `at` its time (seconds since 1970; 0: the fact's),
    `reserved` what was taken off for placements decided since. `share` is the exact part that `weight` stands for,
    before rounding; `kept` runs there already and stays. `plugins` are parts of the score by installed plugin.
    """

    name: str
    rank: int = 0
    region: str = ""
    tier: int = 0
    score: int = 0
    available: int = 0
    room: int = 0
    source: str = ""
    at: float = 0.0
    reserved: int = 0
    selected: bool = False
    running: int = 0
    kept: int = 0
    weight: int = 0
    share: float = 0.0
    replicas: int = 0
    plugins: dict[str, int] = {}


class ExplainedRefusal(Struct, frozen=True, omit_defaults=True):
    """Clusters that one filter refused for one reason; `names` are the first of `count`."""

    filter: str
    reason: str
    count: int
    names: tuple[str, ...] = ()


class ExplainedRegion(Struct, frozen=True, omit_defaults=True):
    """A region as a spread constraint weighed it: how many clusters it offers, its score, whether it was chosen."""

    name: str
    clusters: int = 0
    score: int = 0
    chosen: bool = False


class ExplainedStep(Struct, frozen=True, omit_defaults=True):
    """One division: `demand` replicas by weights that sum up to `weights`, beside `kept` ones that stay."""

    mode: str
    demand: int = 0
    kept: int = 0
    weights: int = 0


class ExplainedTerm(Struct, frozen=True, omit_defaults=True):
    """An affinity group that was tried before the one in force, and what stood in its way."""

    name: str
    message: str = ""


class PlacementExplained(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """The reasons of one placement fact: the one of `key` whose `scheduled_at` or `failed_at` is `decided_at`.

    `others` are clusters that passed the filters and are not among `clusters`, `more_reasons` clusters refused for
    reasons that are not among `refused`; `total` counts all clusters, those being deleted included.
    """

    key: ObjectKey
    uid: str
    decided_at: float = 0.0
    trigger: str = ""
    strategy: str = ""
    replicas: int = 0
    affinity_name: str = ""
    error: str = ""
    message: str = ""
    tried: tuple[ExplainedTerm, ...] = ()
    total: int = 0
    clusters: tuple[ExplainedCluster, ...] = ()
    others: int = 0
    refused: tuple[ExplainedRefusal, ...] = ()
    more_reasons: int = 0
    ignored: int = 0
    regions: tuple[ExplainedRegion, ...] = ()
    more_regions: int = 0
    steps: tuple[ExplainedStep, ...] = ()
    tie_break: str = ""
