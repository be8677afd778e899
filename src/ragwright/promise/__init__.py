"""Answers with a stated risk: a threshold that is chosen, certified and stored."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
