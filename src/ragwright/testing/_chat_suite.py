"""What every chat model must do, as tests that a plug-in inherits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ..flow import Chat, ChatReply, Message
from ..models import ChatModel

T = TypeVar("T")


def _ask(text: str) -> Chat:
    return Chat("suite:model", (Message("system", "Answer briefly."), Message("user", text)))


class ChatModelSuite:
    """Inherit it and say how to make the model; it makes about forty short calls.

    For example::

        class TestMine(ChatModelSuite):
            def make(self) -> ChatModel:
                return MyChatModel()
    """

    def make(self) -> ChatModel:
        """A model that no event loop has used yet."""
        raise NotImplementedError("return the chat model under test")

    def with_model(self, work: Callable[[ChatModel], Coroutine[Any, Any, T]]) -> T:
        """Run work on a loop of its own and close the model there."""

        async def main() -> T:
            model = self.make()
            try:
                return await work(model)
            finally:
                await model.aclose()

        return asyncio.run(main())

    def test_a_reply_is_text_with_its_usage(self) -> None:
        """A reply has text, counts one call, and invents neither counts nor a price."""
        reply = self.with_model(lambda model: model.chat(_ask("Say hello.")))
        assert isinstance(reply, ChatReply)
        assert isinstance(reply.text, str)
        assert reply.finish
        assert reply.usage.prompt_tokens >= 0
        assert reply.usage.completion_tokens >= 0
        assert not reply.cached

    def test_the_identity_is_stable(self) -> None:
        """Two instances of one model have one name."""
        assert self.make().identity
        assert self.make().identity == self.make().identity

    def test_deltas_add_up_to_the_reply(self) -> None:
        """A streaming model passes on exactly its text; any other passes on nothing."""
        deltas: list[str] = []
        reply = self.with_model(lambda model: model.chat(_ask("Count to five."), deltas.append))
        assert not deltas or "".join(deltas) == reply.text

    def test_many_calls_side_by_side(self) -> None:
        """Thirty requests at once all get a reply."""

        async def many(model: ChatModel) -> list[ChatReply]:
            return await asyncio.gather(*(model.chat(_ask(f"Say {i}.")) for i in range(30)))

        assert len(self.with_model(many)) == 30

    def test_a_cancelled_call_leaves_the_model_usable(self) -> None:
        """After a cancelled call the next one is answered."""

        async def work(model: ChatModel) -> ChatReply:
            task = asyncio.ensure_future(model.chat(_ask("Tell a long story.")))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return await model.chat(_ask("Say hello."))

        assert isinstance(self.with_model(work), ChatReply)

    def test_closing_twice_is_harmless(self) -> None:
        """Closing twice is safe: runners and owners may both close."""

        async def work(model: ChatModel) -> None:
            await model.chat(_ask("Say hello."))
            await model.aclose()

        self.with_model(work)
