"""Baselines: distances between questions and answers, compared with those of given pairs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
