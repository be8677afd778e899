"""The table of outputs: every text that was drafted, read back, sampled, exported."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
