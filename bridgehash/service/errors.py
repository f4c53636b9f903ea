"""Failed requests: every error response is `application/problem+json` (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, Field
from starlette.responses import JSONResponse

from .._core.errors import BridgehashError, InputError

PROBLEM_JSON = "application/problem+json"


class ProblemDetails(BaseModel):
    """Why a request failed."""

    type: str = Field(description="Always `about:blank`: the status says what kind of error it is.")
    title: str = Field(description="The status in words.")
    status: int
    detail: str = Field(description="What is wrong.")
    field: str | None = Field(description="The field, parameter or header that is wrong.")


class RequestError(BridgehashError):
    """A request that fails with a 4xx or 5xx status.

    >>> str(RequestError(404, "no item 7", "id"))
    'id: no item 7'
    """

    def __init__(
        self,
        status: int,
        problem: str,
        field: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.status, self.problem, self.field, self.headers = status, problem, field, headers

    def response(self) -> JSONResponse:
        """Return the response to send."""
        body = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": str(self).encode("utf-8", "replace").decode(),  # no lone surrogates
            "field": self.field,
        }
        return JSONResponse(body, self.status, self.headers, PROBLEM_JSON)


def overloaded(problem: str) -> RequestError:
    """Return a 503 error: safe to retry."""
    return RequestError(503, problem, headers={"Retry-After": "1"})


def invalid(error: ValueError, field: str) -> RequestError:
    """Return a 422 error for a value that the library rejects; the field replaces its argument."""
    problem = error.problem if isinstance(error, InputError) else str(error)
    return RequestError(422, problem.partition("\n")[0], field)


def validation_error(errors: Any) -> RequestError:
    """Return the first error of pydantic as a 422 error, or 400 if the body is not JSON.

    >>> error = {"type": "int", "loc": ("ids", 3), "msg": "Input should be a valid integer"}
    >>> str(validation_error([error]))
    'ids[3]: input should be a valid integer'
    """
    error, name = errors[0], ""
    for part in error["loc"]:
        if part not in ("body", "query", "path"):
            name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else str(part)
    message = str(error["msg"])
    status = 400 if error["type"] == "json_invalid" else 422
    return RequestError(status, message[:1].lower() + message[1:200], name[:100] or "body")
