"""Commands that change what is propagated, and show what would follow before they do: plan, undo, apply."""
