"""A copy of the kernel in which code computes on the live objects and can change nothing else."""
