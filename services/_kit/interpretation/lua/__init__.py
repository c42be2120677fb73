"""Interpreter scripts in Lua: a sandboxed machine, the process it runs in, and the pool of such processes."""
