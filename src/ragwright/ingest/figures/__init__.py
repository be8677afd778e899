"""Figures of documents: the images of a file with caption, page and box."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
