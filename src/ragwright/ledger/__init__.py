"""The tables that the program keeps: their database, schema, writer, locks and files."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
