"""The different treatment of small models; the rest of the package knows nothing of it."""
