"""The commands `fleetlog log`: verify, repair, export, import."""
