"""Undo: what the variables contain, what a run has changed in them, and how it is put back."""
