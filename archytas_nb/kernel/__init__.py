"""Everything that touches the kernel: calls and their limits, variables, output, the person."""
