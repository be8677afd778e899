"""A workbench for retrieval-augmented generation: build, tailor, measure, tune and run it.

Importing this package is quick and touches nothing; each public name is loaded when it is
first used.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
