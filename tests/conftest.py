"""Settings for all tests: a property may take its time on a busy machine."""

from hypothesis import settings

settings.register_profile("starqe", deadline=None)
settings.load_profile("starqe")
