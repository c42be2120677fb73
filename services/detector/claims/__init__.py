"""Which policy claims which template, and what becomes of a policy itself: pure decisions on the state."""
