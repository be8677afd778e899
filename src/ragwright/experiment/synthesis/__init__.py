"""Synthetic testsets: questions on a collection, with a model or without, and their gold."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
