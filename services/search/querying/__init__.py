"""The language of `fleetlog search`: its syntax, and which objects a query means. Pure."""
