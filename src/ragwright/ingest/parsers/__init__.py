"""Parsers of other packages: each turns a file into Markdown, as a setting."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
