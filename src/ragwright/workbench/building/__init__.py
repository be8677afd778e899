"""Building the index: sources read and stamped, documents cut, embedded and written."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
