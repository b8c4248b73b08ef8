"""Turn the functions of a notebook into tools, and talk to an agent that uses them on live objects."""
