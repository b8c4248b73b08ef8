"""Python's syntax: trees of texts, the names in them, and changes of a text at its nodes."""
