"""A project folder and what its file says: settings, jobs, what is served, and all of it opened."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
