"""Diagnosis: which stage, reader or capability a run loses its points by."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
