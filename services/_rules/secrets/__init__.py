"""Which objects are secret, and what may be said of them."""
