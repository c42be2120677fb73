"""Checks of cron schedules, with the texts that a CronJob's bad schedule is refused with."""

from __future__ import annotations

from services._rules.autoscaling.cron_schedule import CronError, parse_schedule


def problem(schedule: str) -> str:
    """Return what is wrong with a schedule; empty when it is good."""
    try:
        parse_schedule(schedule)
    except CronError as error:
        return str(error)
    return ""
