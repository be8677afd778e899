"""Questions about spreadsheets and CSV files, answered by SQL, with or without a model."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
