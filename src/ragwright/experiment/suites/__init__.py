"""Capability suites: rows that carry their passages and a dose, and how they are answered."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
