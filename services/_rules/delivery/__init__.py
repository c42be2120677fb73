"""How an object of a member is brought to what its work says, and what a report of it means."""
