"""Rows in files: read line by line from our names and those of other tools, and written."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
