"""Property tests of this room may take the time that they need: a busy machine is no failure."""

from hypothesis import settings

settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")
