"""What is known about objects of any type."""
