"""Rows of tables and databases: bronze, silver and gold tables, then documents."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
