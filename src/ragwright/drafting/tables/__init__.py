"""Records as documents: refresh of the tables, and their sync with the index."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
