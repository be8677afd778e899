"""Passports of judges: how far a measure, a model or recorded verdicts agree with people."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
