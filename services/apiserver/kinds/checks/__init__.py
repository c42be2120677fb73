"""Checks of what many kinds share: the spec of a pod and its parts, label selectors, cron schedules."""
