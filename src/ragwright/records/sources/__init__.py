"""Sources of rows: files and databases, in batches with the place of each row."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
