"""Interfaces of other programs: OpenAI's responses and vector stores, Dify's retrieval."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
