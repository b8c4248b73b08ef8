"""Facts about objects of any type."""
