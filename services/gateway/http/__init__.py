"""HTTP API of the gateway: requests, lists and watches."""
