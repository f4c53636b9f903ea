"""The files of a small service, as in the tests of the service."""

from tests.service.conftest import _made, folder  # noqa: F401
