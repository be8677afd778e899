"""Patterns over columns of texts: which engine runs one, and what it finds or replaces."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
