"""Calls external plugins; any error of one becomes a failure of the attempt that names it."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from services._rules.scheduling.plugin_set import PluginSet
from services._rules.scheduling.plugins.interface import (
    ContextFilterPlugin,
    FilterContext,
    FilterPlugin,
    NormalizingPlugin,
    Result,
    ScorePlugin,
)
from services._rules.scheduling.scheduling_views import BindingView, ClusterView, Failure, Peers, Status

_FILTERING = "failed to find fit clusters"
_SCORING = "failed to prioritize clusters"


def outside_refusal(
    plugins: PluginSet, binding: BindingView, status: Status, cluster: ClusterView, peers: Peers | None
) -> tuple[str, tuple[str, ...]] | None:
    """Name and reasons of the first plugin that leaves a cluster out; raises Failure where one does not answer."""
    for name, plugin in plugins.outside:
        if isinstance(plugin, ContextFilterPlugin):
            context = FilterContext(binding, status, cluster, peers)
            answer = _asked(_FILTERING, f'plugin "{name}" failed', plugin.filter_with_context, context)
        elif isinstance(plugin, FilterPlugin):
            answer = _asked(_FILTERING, f'plugin "{name}" failed', plugin.filter, binding, status, cluster)
        else:
            continue
        result = _result(_FILTERING, f'plugin "{name}" failed', answer)
        if result.code != "Success":
            return name, result.reasons or (f'plugin "{name}" left it out without a reason',)
    return None


def outside_scores(
    plugins: PluginSet, binding: BindingView, clusters: Sequence[ClusterView]
) -> dict[str, dict[str, int]]:
    """Scores of the clusters by plugin; raises Failure where one does not answer with a whole number."""
    return {
        name: _scores(name, plugin, binding, clusters)
        for name, plugin in plugins.outside
        if isinstance(plugin, ScorePlugin)
    }


def _scores(name: str, plugin: ScorePlugin, binding: BindingView, clusters: Sequence[ClusterView]) -> dict[str, int]:
    failed = f'plugin "{name}" failed'
    scores: dict[str, int] = {}
    for cluster in clusters:
        answer = _asked(_SCORING, failed, plugin.score, binding, cluster)
        score, said = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
        _succeeded(failed, said)
        scores[cluster.name] = _whole(failed, cluster.name, score)
    if isinstance(plugin, NormalizingPlugin):
        failed = f'plugin "{name}" normalizeScore failed'
        _succeeded(failed, _asked(_SCORING, failed, plugin.normalize, scores))
        return {cluster.name: _whole(failed, cluster.name, scores.get(cluster.name)) for cluster in clusters}
    return scores


def _asked(stage: str, failed: str, ask: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return ask(*arguments)
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises concerns this attempt alone
        _fail(stage, failed, f"{type(error).__name__}: {error}")


def _result(stage: str, failed: str, answer: Any) -> Result:
    if answer is None:
        return Result()
    if not isinstance(answer, Result):
        _fail(stage, failed, f"it answered {answer!r:.100}, not a Result or None")
    return answer


def _succeeded(failed: str, answer: Any) -> None:
    result = _result(_SCORING, failed, answer)
    if result.code != "Success":
        _fail(_SCORING, failed, result.text)


def _whole(failed: str, cluster: str, score: Any) -> int:
    if isinstance(score, bool) or not isinstance(score, int):
        _fail(_SCORING, failed, f"its score of {cluster} is {score!r:.100}, not a whole number")
    return score


def _fail(stage: str, failed: str, why: str) -> NoReturn:
    raise Failure("Error", f"{stage}: {failed} with: {why}")
