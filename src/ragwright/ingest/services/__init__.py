"""Sources of other packages: file systems of fsspec, loaders of LangChain and LlamaIndex."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
