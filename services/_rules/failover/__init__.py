"""Rules of failover: which clusters an object has to leave, for how long a copy stays, and which state it preserves.

All of them are pure: `now` is an argument, and what they decide upon is handed in (docs/sources.md#failover).
"""
