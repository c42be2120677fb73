"""Rules that many kinds share: pods, containers, volumes, affinities, metrics, schedules, status."""
