"""Undo: records what a run changes in the variables, and restores them."""
