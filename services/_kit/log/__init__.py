"""The port to the streams of the log, its backend (JetStream) and its reader.

No event is interpreted here.
"""
