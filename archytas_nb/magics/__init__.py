"""The magics: parse a line, delegate, return a value."""
