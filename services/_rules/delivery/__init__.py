"""How a member's object is reconciled with its work, and how a report of it is read."""
