"""Foresees what a change set would bring about: the decisions of other services, made in memory.

Consumes: the last fact of every facet, policy and cluster, or those of a time in the past.
Produces: nothing; a plan for who asked.
Owns: the order in which detector, scheduler and override renderer decide when all of them run in one process.
Never: writes, or runs inside another service: the command line imports it, a guard runs it as a process of its own.
"""
