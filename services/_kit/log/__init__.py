"""The port to the streams of the log, its backends (JetStream, memory) and their reader.

No event is interpreted here.
"""
