"""Requests of callers on their way into members: what they are, who carries them, and what comes back."""
