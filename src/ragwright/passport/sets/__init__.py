"""Adapters of published sets of people's verdicts, and files of rows by a map of their columns."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
