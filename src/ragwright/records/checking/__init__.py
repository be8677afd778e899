"""What `records check` tries and tells: rows, patterns, rules, and the report of it all."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
