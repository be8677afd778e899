"""The table of outputs: every draft and every prompt, with feedback and exports."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
