"""Studies: sweeps and ablations, their trials, and what the confirm split says of a winner."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
