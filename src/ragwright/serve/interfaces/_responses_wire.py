"""The body of ``POST /v1/responses``."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import Field, StrictBool, ValidationError, field_validator

from .._wire import Body, ChatMessage, Extras, Text
from ._conditions import Comparison, Compound

MetadataKey: TypeAlias = Annotated[str, Field(max_length=64)]
MetadataValue: TypeAlias = Annotated[str, Field(max_length=512)]
"""A text of a client's own, within OpenAI's bounds."""


class InputItem(Body):
    """An item of an input: a message, or an item of an earlier output, which is left out."""

    type: str = "message"
    role: str = ""
    content: Any = None

    def message(self) -> ChatMessage | None:
        """The message; None for other items.

        Raises:
            ValueError: Its role or its content cannot be read.
        """
        if self.type != "message":
            return None
        return ChatMessage.model_validate({"role": self.role, "content": self.content})


class Tool(Body):
    """A file search, of which the stores and the filters are used."""

    type: str
    vector_store_ids: list[str] = Field(default_factory=list, max_length=1)
    filters: Comparison | Compound | None = None


class TextFormat(Body):
    """The form of a text."""

    type: str = "text"


class TextOptions(Body):
    """Options for the text."""

    format: TextFormat = Field(default_factory=TextFormat)


class ResponsesRequest(Body):
    """A request for a response; sampling parameters are those of the configuration."""

    model: str = ""
    input: Text | Annotated[list[InputItem], Field(min_length=1, max_length=1000)]
    stream: StrictBool = False
    include: list[str] | None = None
    tools: list[dict[str, Any]] | None = None
    previous_response_id: Annotated[str, Field(max_length=200)] | None = None
    metadata: Annotated[dict[MetadataKey, MetadataValue], Field(max_length=16)] | None = None
    text: TextOptions | None = None
    background: StrictBool | None = None
    conversation: object = None
    ragwright: Extras = Field(default_factory=Extras)

    @field_validator("tools")
    @classmethod
    def _require_one_file_search(
        cls, tools: list[dict[str, Any]] | None
    ) -> list[dict[str, Any]] | None:
        searches = [tool for tool in tools or () if tool.get("type") == "file_search"]
        if len(searches) > 1:
            raise ValueError("send one tool of type file_search at most")
        for tool in searches:
            try:
                Tool.model_validate(tool)
            except ValidationError as error:
                first = error.errors()[0]
                place = ".".join(map(str, first["loc"]))
                raise ValueError(f"{place}: {first['msg']}") from None
        return tools

    @field_validator("background")
    @classmethod
    def _require_foreground(cls, background: bool | None) -> bool | None:
        if background:
            raise ValueError("answers are sent at once; leave background out")
        return background

    @field_validator("conversation")
    @classmethod
    def _require_no_conversation(cls, conversation: object) -> object:
        if conversation is not None:
            raise ValueError(
                "no conversation of the client is kept; leave it out and send previous_response_id"
            )
        return conversation

    @field_validator("text")
    @classmethod
    def _require_text_form(cls, options: TextOptions | None) -> TextOptions | None:
        if options is not None and options.format.type != "text":
            raise ValueError("answers are text with citations; leave text.format out")
        return options

    @field_validator("input")
    @classmethod
    def _require_readable_messages(cls, items: str | list[InputItem]) -> str | list[InputItem]:
        if isinstance(items, list):
            for item in items:
                item.message()
        return items

    def messages(self) -> list[ChatMessage]:
        """The messages of the input, oldest first."""
        if isinstance(self.input, str):
            return [ChatMessage(role="user", content=self.input)]
        messages = (item.message() for item in self.input)
        return [message for message in messages if message is not None]

    @property
    def searching(self) -> Tool | None:
        """The file search that the client configures; None where the defaults apply."""
        searches = (tool for tool in self.tools or () if tool.get("type") == "file_search")
        tool = next(searches, None)
        return None if tool is None else Tool.model_validate(tool)
