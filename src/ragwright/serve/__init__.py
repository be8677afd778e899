"""HTTP and MCP over the facade: an OpenAI-compatible server, and tools for agents."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
