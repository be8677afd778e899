"""Readers that turn sources into documents, and chunkers that cut them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
