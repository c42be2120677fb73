"""The files of a stopped nats-server: which stored messages are damaged, and how the server can start without them."""
