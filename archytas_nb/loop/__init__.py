"""The loop and its values. It asks and is told; it never acts."""
