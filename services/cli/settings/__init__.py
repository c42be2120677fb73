"""The commands `fleetlog settings`: what the variables and files of services say, before a service reads them."""
