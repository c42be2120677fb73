"""Puts together what a running gateway answers questions about metrics with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from services.gateway.measured_members import MeasuredMember
from services.gateway.member_metrics.member_questions import MemberQuestions, QuestionBounds
from services.gateway.member_metrics.merged_answers import MergedAnswers
from services.gateway.member_metrics.served_metrics import ServedMetrics
from services.gateway.members.member_ways import MemberWays

if TYPE_CHECKING:
    from services.gateway.metrics import QuestionMetrics


class Measuring:
    """Answers, and what is known of the metrics that members serve; `members` are all members as they are now."""

    def __init__(
        self,
        ways: MemberWays,
        bounds: QuestionBounds,
        metrics: QuestionMetrics,
        members: Callable[[], Mapping[str, MeasuredMember]],
    ) -> None:
        questions = MemberQuestions(ways.reads, bounds, metrics)
        self.served = ServedMetrics(questions, members)
        self.answers = MergedAnswers(questions, self.served, members)

    def close(self) -> None:
        """End what is under way."""
        self.served.close()
