"""Continuous evaluation: scores of served answers, their drift, and what changed at that time."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
