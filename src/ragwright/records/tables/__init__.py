"""Versioned tables of rows: read, written, compared, exported; what is known of their source."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
