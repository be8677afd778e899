"""The corpus doctor: faults of documents that no setting repairs, the most severe first."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
