"""Kinds of runs that studies make, as the store of runs names them."""

from __future__ import annotations

ABLATE = "ablate"
CONFIRM = "confirm"
SWEEP = "sweep"
TRIAL = "trial"
