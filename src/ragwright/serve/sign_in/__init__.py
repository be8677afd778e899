"""People: sign-in through an identity provider, its tokens, and the headers of a proxy."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
