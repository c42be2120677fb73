"""The HTTP face of the gateway: requests, lists and watches."""
