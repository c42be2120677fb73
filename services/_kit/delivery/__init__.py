"""Delivery of works to the objects of one cluster, and reports of them; shared by the executor and the agent."""
