"""Jobs of a project: run step by step, on a schedule, written down, told about."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
