"""Statistics of scores: intervals, agreement of raters, drift; numbers alone, no rows."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
