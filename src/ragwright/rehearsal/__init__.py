"""Rehearsals: which answers a change would change, why, and whether a gate lets it pass."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
