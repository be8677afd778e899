"""Lookup tables of the declarations: rows of a file or a database, and the copy last read."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
