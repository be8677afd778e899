"""Reports from stored runs: tables, charts, one HTML file, JSON, CSV and JUnit XML."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
