"""From feedback to candidate rows of a testset, which people review."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
