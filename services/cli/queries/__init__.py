"""Commands that ask the log about objects: events, history, explain, simulate, replay."""
