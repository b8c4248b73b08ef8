"""The embedded model: its weights, and the server that runs it in a process of its own."""
