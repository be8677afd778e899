"""Web pages over the same service: ask, sources, experiments, outputs, settings."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
