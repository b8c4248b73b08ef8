"""The ReAct loop, its protocols and its values. Nothing in this package does I/O."""
