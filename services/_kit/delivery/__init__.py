"""The way from works to the objects of one cluster and back; shared by the executor and the agent."""
