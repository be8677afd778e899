"""Stored runs: by name, their testsets, rows stored as they end and taken up again."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
