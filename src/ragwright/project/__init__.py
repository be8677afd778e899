"""An opened project: settings, folder, store, runner, target, personas, glossary, ingest."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
