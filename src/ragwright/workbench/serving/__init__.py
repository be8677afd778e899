"""What is served: drafts written and kept, a sample of them measured, promotion."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
