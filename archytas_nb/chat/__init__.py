"""The conversation of a notebook in a chat panel, by the Agent Client Protocol.

`listener` waits in the kernel for questions, `bridge` is the program that a chat starts and that
passes them on, and `persona` tells jupyter-ai of it.
"""
