"""Tables of spreadsheets and CSV files, kept as a SQLite file that answers by SQL."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
