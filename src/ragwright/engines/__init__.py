"""Engines: where a batch of work runs, threads of this process or workers of a Ray cluster."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
