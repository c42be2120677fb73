"""Which endpoints of exported Services other clusters get, and the objects that carry them."""
