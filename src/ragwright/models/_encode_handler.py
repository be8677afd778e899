"""The handler through which flows reach models of channels with data of their own."""

from __future__ import annotations

from collections.abc import Sequence

from ..core import PluginError, RagwrightError, counted
from ..flow import BatchHandler, Encode, EncodeReply
from ._carriers import ReadsOnly

_MOST_TEXTS = 64
"""Texts that are encoded at once: an ingest counts them, and a query waits for them."""


class EncodeHandler(ReadsOnly, BatchHandler[Encode, EncodeReply]):
    """Carries out ``Encode`` by local models, off the loop; the model is opened there too."""

    def identity(self, request: Encode) -> str:
        """The encoder's own identity."""
        return self.models.encoders.encoder(request.channel, request.model).identity

    def durable(self, request: Encode) -> bool:
        """False where a query is a table look-up: it is faster than reading stored replies."""
        return not self.models.encoders.encoder(request.channel, request.model).instant

    def together(self, requests: Sequence[Encode]) -> int:
        """The first requests with up to 64 texts in all, so that each batch ends soon."""
        texts = 0
        for count, request in enumerate(requests[: self.max_batch]):
            texts += len(request.texts)
            if texts > _MOST_TEXTS and count:
                return count
        return self.max_batch

    def carry(self, requests: Sequence[Encode]) -> Sequence[EncodeReply | RagwrightError]:
        """Replies in order."""
        return [self._encode_one(request) for request in requests]

    def _encode_one(self, request: Encode) -> EncodeReply | RagwrightError:
        try:
            encoder = self.models.encoders.encoder(request.channel, request.model)
            encodings = tuple(encoder.encode_batch(request.texts, request.role))
            if len(encodings) != len(request.texts):
                raise PluginError(
                    f"{counted(len(encodings), 'encoding')} for "
                    f"{counted(len(request.texts), 'text')}",
                    where=request.model,
                )
        except RagwrightError as error:
            return error
        return EncodeReply(encodings)
