"""Metrics of all members as one: who may read them, which members are asked, and how their answers become one."""
