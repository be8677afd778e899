"""Judges beside people: calibration, agreement, people's own agreement."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
