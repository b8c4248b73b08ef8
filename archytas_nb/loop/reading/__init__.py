"""How replies of a model are read: calls in any markup, JSON with faults, thoughts."""
