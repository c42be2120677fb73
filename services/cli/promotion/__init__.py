"""Objects and the policies that bring them to members: apply with clusters, and promote what a member runs already."""
