"""The stages of a refresh: bronze, silver and gold rows, and rows that are left out."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
