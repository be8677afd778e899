"""Models that encode texts for channels with data of their own, by channel and name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from .. import models as room  # back ends load when a model is opened
from ..core import ConfigError
from ._late_form import PLACED
from ._names import Target
from ._options import EmbedOptions
from ._seams import Encoder


class FindsModels(Protocol):
    """Finds models by name, as :class:`ragwright.models.Models` does."""

    def backend(self, name: str) -> object | None:
        """The custom back end of a name."""

    def target(self, name: str) -> Target:
        """The location and the settings of a model."""

    def located(self, name: str) -> tuple[str, EmbedOptions]:
        """Folder or name on the hub of a local model, and its options."""


OPENERS: Mapping[str, Callable[[str, EmbedOptions], Encoder]] = {
    "sparse": lambda source, options: room.open_sparse_encoder(source, options),
    "late": lambda source, options: room.open_late(source, options),
}
"""The function that opens a model from its folder or its name on the hub, by channel."""


class Encoders:
    """The encoders of a project, each opened once.

    Args:
        models: Finds models by name.
    """

    def __init__(self, models: FindsModels) -> None:
        self._models = models
        self._open: dict[tuple[str, str], Encoder] = {}
        self._opening = threading.Lock()

    def encoder(self, channel: str, name: str) -> Encoder:
        """The model of a channel.

        Raises:
            ConfigError: The name is unknown, names no local model, or a model that does not encode
                for this channel.
            MissingExtraError: The extra that opens it is not installed.
        """
        if channel == PLACED:
            return room.PlacedTokens(self.encoder("late", name))
        own = self._models.backend(name)
        if isinstance(own, Encoder):
            return own
        target = None if own is not None else self._models.target(name)
        if target is None or target.kind != "folder":
            raise ConfigError(
                f"{name!r} is not a model for the channel {channel!r}",
                where=f"{channel}.model",
                hint=f"name a local model: {channel}.model: st:FOLDER or hf:ORG/NAME",
            )
        with self._opening:
            place = (channel, name)
            if place not in self._open:
                source, options = self._models.located(name)
                self._open[place] = OPENERS[channel](source, options)
            return self._open[place]

    def identity(self, channel: str, name: str) -> str:
        """The identity of the model of a channel, by its files alone where that is possible.

        Raises:
            ConfigError: As for :meth:`encoder`.
            MissingExtraError: The model has to be opened, and the extra for it is not installed.
        """
        known = (channel, name) in self._open or self._models.backend(name) is not None
        if channel == "late" and not known and self._models.target(name).kind == "folder":
            return room.late_identity(self._models.located(name)[0])
        return self.encoder(channel, name).identity
