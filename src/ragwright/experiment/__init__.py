"""Evaluations, studies, confirmation, ablation and diagnosis, and what follows from them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
