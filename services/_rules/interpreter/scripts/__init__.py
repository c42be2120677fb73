"""Interpretation by Lua scripts: calls, results, bundled scripts. The interpreter of Lua runs in _kit."""
