"""What the service answers where it cannot do what it was asked: one sentence, and the field."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.responses import JSONResponse


class Problem(BaseModel):
    """Why a request was refused."""

    error: str
    field: str | None = None


class Refused(Exception):
    """A request that is not carried out; the sentence goes to the client."""

    def __init__(
        self,
        status: int,
        sentence: str,
        field: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.field, self.headers = status, sentence, field, headers

    def response(self) -> JSONResponse:
        """What is sent."""
        return problem(self.status, self.sentence, self.field, self.headers)


def problem(
    status: int, sentence: str, field: str | None = None, headers: dict[str, str] | None = None
) -> JSONResponse:
    """A response with the one shape that all refusals have."""
    shown = sentence.encode("utf-8", "replace").decode()  # half a character cannot be sent
    return JSONResponse({"error": shown, "field": field}, status, headers)


def invalid(sentence: str, field: str | None = None) -> Refused:
    """A value that is not allowed."""
    return Refused(422, sentence, field)


def busy(sentence: str) -> Refused:
    """Too much at once; the same may go well a little later."""
    return Refused(503, sentence, headers={"Retry-After": "1"})


def first_problem(errors: Any) -> tuple[str, str]:
    """A sentence and a field for what pydantic found first.

    >>> first_problem([{"loc": ("body", "ids", 3), "msg": "Input should be a valid integer"}])
    ('ids[3]: input should be a valid integer', 'ids[3]')
    """
    error = errors[0]
    places = [part for part in error["loc"] if part not in ("body", "query", "path")]
    name = ""
    for part in places:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else str(part)
    message = str(error["msg"])
    message = message[:1].lower() + message[1:]
    field = name[:100] or "body"
    return f"{field}: {message[:200]}", field


def from_validation(error: ValidationError) -> Refused:
    """The refusal of a JSON body that has another form."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    is_json = errors[0]["type"] != "json_invalid"
    sentence, field = first_problem(errors)
    return Refused(422 if is_json else 400, sentence, field)
