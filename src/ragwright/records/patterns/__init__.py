"""Patterns on columns of texts: choice of the engine, search and replacement."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
