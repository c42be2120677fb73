"""What every process has: clock, settings, errors, health, logs, metrics.

Nothing here runs by itself or knows the log.
"""
